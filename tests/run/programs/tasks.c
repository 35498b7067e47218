/// \file
/// Tasks: where their data comes from, who waits for whom, and in what order.
#include "check.h"

#include <stdlib.h>
#include <string.h>

static int fibonacci(int n) {
  if (n < 2) return n;
  int first;
  int second;
#pragma omp task shared(first) final(n < 8)
  first = fibonacci(n - 1);
#pragma omp task shared(second) final(n < 8)
  second = fibonacci(n - 2);
#pragma omp taskwait
  return first + second;
}

struct Node {
  struct Node* left;
  struct Node* right;
  int value;
};

/// A tree that tasks build, anywhere.
static struct Node* grow(int depth, int value) {
  struct Node* const node = malloc(sizeof *node);
  *node = (struct Node){NULL, NULL, value};
  if (depth > 0) {
#pragma omp task
    node->left = grow(depth - 1, 2 * value);
#pragma omp task untied
    node->right = grow(depth - 1, 2 * value + 1);
  }
#pragma omp taskwait
  return node;
}

static long long fell(struct Node* node) {
  if (node == NULL) return 0;
  const long long sum = node->value + fell(node->left) + fell(node->right);
  free(node);
  return sum;
}

static void sort(int* values, int count) {
  if (count < 64) {
    for (int i = 1; i < count; ++i) {
      for (int j = i; j > 0 && values[j - 1] > values[j]; --j) {
        const int value = values[j];
        values[j] = values[j - 1];
        values[j - 1] = value;
      }
    }
    return;
  }
  const int pivot = values[count / 2];
  int left = 0;
  int right = count - 1;
  while (left <= right) {
    while (values[left] < pivot) ++left;
    while (values[right] > pivot) --right;
    if (left > right) break;
    const int value = values[left];
    values[left++] = values[right];
    values[right--] = value;
  }
#pragma omp task
  sort(values, right + 1);
#pragma omp task
  sort(values + left, count - left);
}

static void run_independent_tasks(void) {
  const int team = omp_get_max_threads();
  static int results[2000];
  int count = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    for (int i = 0; i < 500; ++i) {
#pragma omp task firstprivate(i)
      results[i] = i * i;
    }
  }
  long long sum = 0;
  for (int i = 0; i < 500; ++i) sum += results[i];
  check_int("tasks of one thread", sum);
#pragma omp parallel
#pragma omp single
  for (int i = 0; i < 20 * team; ++i) {
#pragma omp task
    {
      meet();
#pragma omp atomic
      ++count;
    }
  }
  check_int("tasks that all threads run", count);
  count = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50; ++i) {
#pragma omp task
      {
#pragma omp atomic
        count += i;
      }
    }
  }
  check_int("tasks of all threads", count);
}

static void recurse_in_tasks(void) {
  int number = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    number = fibonacci(17);
  }
  check_int("taskwait", number);
  struct Node* tree = NULL;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    tree = grow(8, 1);
  }
  check_int("a tree", fell(tree));
  static int values[4000];
  for (int i = 0; i < 4000; ++i) values[i] = (int)((i * 7919LL) % 4001);
#pragma omp parallel
  {
    take_part();
#pragma omp single
    sort(values, 4000);
  }
  int in_order = 0;
  for (int i = 1; i < 4000; ++i) in_order += values[i - 1] < values[i];
  check_int("a sort", in_order);
}

static void wait_for_group(void) {
  // Nobody waits for the grandchildren but the group.
  int after = -1;
  int count = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    {
#pragma omp taskgroup
      {
        for (int i = 0; i < 10; ++i) {
#pragma omp task
          {
            for (int j = 0; j < 5; ++j) {
#pragma omp task
              {
#pragma omp atomic
                ++count;
              }
            }
          }
        }
      }
#pragma omp atomic read
      after = count;
    }
  }
  check_int("taskgroup", after);
}

static void depend(void) {
  int chain = 1;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    for (int i = 0; i < 30; ++i) {
#pragma omp task depend(inout : chain) shared(chain)
      chain = (chain * 3 + i) % 10007;
    }
  }
  check_int("a chain of dependences", chain);
  static int cells[10][10];
#pragma omp parallel
  {
    take_part();
#pragma omp single
    for (int i = 0; i < 10; ++i) {
      for (int j = 0; j < 10; ++j) {
        int* const above = &cells[i > 0 ? i - 1 : 0][j];
        int* const left = &cells[i][j > 0 ? j - 1 : 0];
#pragma omp task depend(in : above[0], left[0]) depend(out : cells[i][j])
        cells[i][j] = 1 + (i > 0 ? *above : 0) + (j > 0 ? *left : 0);
      }
    }
  }
  check_int("a wavefront of dependences", cells[9][9]);
  int source = 0;
  int readers = 0;
  int result = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    {
#pragma omp task depend(out : source)
      source = 21;
      for (int i = 0; i < 8; ++i) {
#pragma omp task depend(in : source)
        {
#pragma omp atomic
          readers += source;
        }
      }
#pragma omp task depend(inout : source)
      result = readers * 10 + source;
    }
  }
  check_int("readers between writers", result);
  int members = 0;
  int set = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    {
      for (int i = 0; i < 10; ++i) {
#pragma omp task depend(mutexinoutset : set)
        set += i;
      }
#pragma omp task depend(out : members)
      members = 30;
#pragma omp taskwait depend(in : set, members)
      result = set * 100 + members;
    }
  }
  check_int("mutexinoutset, and taskwait with dependences", result);
}

/* Two tasks, of which each waits for the other to begin. Short ones before them have the maker's rank
 * publish, which it does not do again so soon; the other ranks ask when it is inside of one of the two. */
static void run_tasks_that_meet(void) {
  static int begun[2];
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() != 0) usleep(20000);
#pragma omp master
    {
      for (int i = 0; i < 2; ++i) {
#pragma omp task firstprivate(i)
        begun[i] = 0;
      }
#pragma omp taskwait
      for (int i = 0; i < 2; ++i) {
#pragma omp task firstprivate(i)
        {
          int other = 0;
#pragma omp atomic write seq_cst
          begun[i] = 1;
          const double end = omp_get_wtime() + 60;
          while (other == 0 && omp_get_num_threads() > 1 && omp_get_wtime() < end) {
#pragma omp atomic read seq_cst
            other = begun[1 - i];
            if (other == 0) usleep(50);
          }
          if (omp_get_num_threads() > 1 && other == 0) begun[i] = 2;
        }
      }
#pragma omp taskwait
    }
  }
  check_int("tasks that meet", begun[0] + begun[1]);
}

static void loop_in_tasks(void) {
  const int team = omp_get_max_threads();
  static long long looped[3000];
#pragma omp parallel
  {
    take_part();
#pragma omp single
#pragma omp taskloop grainsize(37)
    for (int i = 0; i < 3000; ++i) looped[i] = i;
  }
  long long sum = 0;
  for (int i = 0; i < 3000; ++i) sum += looped[i];
  check_int("taskloop grainsize", sum);
  int count = 0;
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskloop num_tasks(16 * team) shared(count)
    for (int i = 0; i < 16 * team; ++i) {
      meet();
#pragma omp atomic
      ++count;
    }
  }
  check_int("taskloop num_tasks", count);
  sum = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
#pragma omp taskloop nogroup collapse(2) shared(sum)
    for (unsigned long long i = 0; i < 20; ++i) {
      for (int j = 0; j < 10; ++j) {
#pragma omp atomic
        sum += (long long)i * j;
      }
    }
  }
  check_int("taskloop collapse, unsigned long long", sum);
  int last = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
#pragma omp taskloop lastprivate(last)
    for (int i = 0; i < 100; ++i) last = i * 5;
  }
  check_int("taskloop lastprivate", last);
}

static void take_values_along(void) {
  struct Big {
    double numbers[200];
    char text[40];
  } big = {{0}, "a lot to take along"};
  for (int i = 0; i < 200; ++i) big.numbers[i] = i;
  int right = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    for (int i = 0; i < 40; ++i) {
      big.numbers[0] = i;
#pragma omp task firstprivate(big) shared(right)
      {
        const int is_right = big.numbers[0] == i && big.numbers[199] == 199 && strlen(big.text) == 19;
#pragma omp atomic
        right += is_right;
      }
    }
  }
  check_int("large firstprivate", right);
#ifndef __clang__  // which refuses it
  int length = 50;
  right = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    {
      int vla[length];
      for (int i = 0; i < length; ++i) vla[i] = i;
#pragma omp task firstprivate(vla) shared(right)
      for (int i = 0; i < length; ++i) right += vla[i];
      for (int i = 0; i < length; ++i) vla[i] = -1;
    }
  }
  check_int("firstprivate variable length array", right);
#endif
}

/// Threads of a region are not, though the task that starts it is.
static void start_regions_in_final_tasks(void) {
  int finals = 0;
#pragma omp task final(1) shared(finals)
  {
#pragma omp parallel reduction(+ : finals)
    {
      take_part();
      finals += omp_in_final();
    }
    finals += 100 * omp_in_final();
  }
#pragma omp taskwait
  check_int("final tasks in a region of one", finals);
  finals = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    {
#pragma omp task final(1) shared(finals)
      {
#pragma omp parallel num_threads(2) reduction(+ : finals)
        finals += 1 + omp_in_final();
      }
    }
  }
  check_int("final tasks in an inner region of one", finals);
}

static void run_by_clauses(void) {
  int undeferred = 0;
  int finals = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    {
      for (int i = 0; i < 10; ++i) {
#pragma omp task if (0) shared(undeferred)
        undeferred = undeferred * 2 + i;
#pragma omp task final(1) shared(finals)
        {
#pragma omp task shared(finals)
          {
#pragma omp atomic
            finals += 10 + omp_in_final();
          }
        }
#pragma omp taskwait
      }
    }
  }
  check_int("if and final", undeferred * 1000LL + finals);
  int count = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    for (int i = 0; i < 30; ++i) {
#pragma omp task priority(i % 5) mergeable untied
      {
#pragma omp taskyield
#pragma omp atomic
        count += i;
      }
    }
  }
  check_int("priority, mergeable, untied, taskyield", count);
}

static void wait_in_all_threads(void) {
  // Each thread makes tasks, and each waits for its own alone.
  int own_right = 0;
#pragma omp parallel
  {
    take_part();
    int mine = 0;
    for (int i = 0; i < 20; ++i) {
#pragma omp task shared(mine)
      {
#pragma omp atomic
        mine += i;
      }
    }
#pragma omp taskwait
    const int is_right = mine == 190;
#pragma omp atomic
    own_right += is_right;
  }
  check_int("tasks on the stacks of all threads", own_right);
  int in_loop = 0;
  int result = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 40; ++i) {
#pragma omp task
      {
#pragma omp atomic
        in_loop += i;
      }
    }
#pragma omp barrier
#pragma omp single
    result = in_loop;
  }
  check_int("a barrier waits for tasks", result);
}

/// A task of a group that waits for one of the same parent outside of it: whoever waits for the group must
/// run that.
static void wait_outside_of_group(void) {
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    int first = 0;
    int second = 0;
#pragma omp task depend(out : first) shared(first)
    first = 1;
#pragma omp taskgroup
    {
#pragma omp task depend(in : first) shared(first, second)
      second = first + 1;
    }
    wrong += second != 2;
  }
  check_int("a group waits for what is outside of it", wrong);
}

/// A task that waits for its children with a lock, and another one that wants the lock: where threads that
/// come late are given both the second one and some of the children, they run neither until the lock is free.
static void wait_with_a_lock(void) {
  long long sum = 0;
  int under_lock = 0;
  omp_lock_t lock;
  omp_init_lock(&lock);
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() != 0) usleep(30000);
#pragma omp single
    for (int task = 0; task < 2; ++task) {
#pragma omp task shared(sum, under_lock, lock)
      {
        omp_set_lock(&lock);
        for (int i = 0; i < (task == 0 ? 40 : 0); ++i) {
#pragma omp task shared(sum)
          {
            usleep(2000);
#pragma omp atomic
            sum += i;
          }
        }
#pragma omp taskwait
        ++under_lock;
        omp_unset_lock(&lock);
      }
    }
  }
  omp_destroy_lock(&lock);
  check_int("a lock while waiting for children", 1000 * under_lock + sum);
}

/// The same with a group, whose tasks make others.
static void wait_for_a_group_with_a_lock(void) {
  long long sum = 0;
  int under_lock = 0;
  omp_lock_t lock;
  omp_init_lock(&lock);
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() != 0) usleep(30000);
#pragma omp single
    for (int task = 0; task < 2; ++task) {
#pragma omp task shared(sum, under_lock, lock)
      {
        omp_set_lock(&lock);
#pragma omp taskgroup
        for (int i = 0; i < (task == 0 ? 20 : 0); ++i) {
#pragma omp task shared(sum)
          {
            usleep(2000);
#pragma omp task shared(sum)
            {
              usleep(1000);
#pragma omp atomic
              sum += i;
            }
          }
        }
        ++under_lock;
        omp_unset_lock(&lock);
      }
    }
  }
  omp_destroy_lock(&lock);
  check_int("a lock while waiting for a group", 1000 * under_lock + sum);
}

int main(void) {
  run_independent_tasks();
  run_tasks_that_meet();
  recurse_in_tasks();
  wait_for_group();
  depend();
  loop_in_tasks();
  take_values_along();
  run_by_clauses();
  start_regions_in_final_tasks();
  wait_in_all_threads();
  wait_outside_of_group();
  wait_with_a_lock();
  wait_for_a_group_with_a_lock();
  return finish();
}
