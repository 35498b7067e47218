/* libcraton-libomp.so stands in for libomp.so.5 by its name and its version nodes; what programs call is in
   libcraton-run.so, for both runtimes' names. And it is the library that is initialised before all others, so
   that those of the program wait (constructors.hpp). */
void craton_before_constructors(char** environment);

__attribute__((constructor)) static void initialise(int count, char** arguments, char** environment) {
  (void)count;
  (void)arguments;
  craton_before_constructors(environment);
}
