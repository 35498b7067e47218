/* main ends before its threads, by pthread_exit: the program ends with the last of them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_t first;

static void at_exit(void) {
  printf("handler\n");
}

static void* go_on(void* argument) {
  int error = pthread_join(first, NULL);
  printf("after main %d\n", error);
  return argument;
}

int main(void) {
  pthread_t thread;
  first = pthread_self();
  atexit(&at_exit);
  if (pthread_create(&thread, NULL, &go_on, NULL) != 0) return 1;
  pthread_exit(NULL);
}
