/// \file
/// Ways in which a program of threads ends; the argument says which.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 6;  // so that some are on each of up to four ranks

std::string way;
int main_process = 0;
sem_t elsewhere;  // one for each thread that is not in main's process
std::atomic<int> rest{threads};
std::atomic<int> shared_sum{0};

bool is_elsewhere() {
  return getpid() != main_process;
}

/// Threads that main does not wait for: the last of them says so.
void outlive() {
  usleep(20'000);
  if (--rest == 0) std::printf("the last thread\n");
}

/// One more than main has started, by one of its threads, which ends first.
void hand_on(int left) {
  if (left == 0) return outlive();
  std::thread([left] { hand_on(left - 1); }).detach();
}

void work() {
  if (way == "main_first") return outlive();
  if (way == "handing_on") return hand_on(5);
  if (way == "all_exit" || way == "all_quick_exit") {
    --rest;
    while (rest.load() > 0) usleep(50);
    if (way == "all_exit") std::exit(10);
    std::quick_exit(11);
  }
  if (way == "running" || way == "main_now") {
    sem_post(&elsewhere);
    for (;;) pause();
  }
  if (way == "computing") {
    sem_post(&elsewhere);
    for (std::atomic<unsigned> turns{0};;) ++turns;
  }
  if (way == "allocating") {
    sem_post(&elsewhere);
    constexpr std::size_t page = 4096;
    for (std::size_t pages = 1;; pages = pages % 400 + 1) {
      std::vector<char> fresh(pages * page);
      shared_sum += fresh[page / 2] + fresh.back();
    }
  }
  if (!is_elsewhere()) {
    for (;;) pause();
  }
  std::printf("ends by %s\n", way.c_str());
  std::fflush(stdout);
  if (way == "exit") std::exit(5);
  if (way == "quick_exit") std::quick_exit(6);
  if (way == "_exit") _exit(7);
  if (way == "abort") std::abort();
  if (way == "exception" || way == "handler") throw std::runtime_error("nobody catches this");
  if (way == "fault") *static_cast<volatile int*>(nullptr) = 1;
  for (;;) pause();
}

void at_exit() {
  std::printf("an exit handler, in main's process: %d\n", !is_elsewhere());
}

}  // namespace

int main(int, char** arguments) {
  way = arguments[1];
  main_process = getpid();
  sem_init(&elsewhere, 0, 0);
  std::atexit(&at_exit);
  std::at_quick_exit([] {
    at_exit();
    std::fflush(stdout);
  });
  if (way == "large_stack") {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{64} << 20U);
    pthread_t thread{};
    for (int i = 0; i < 2; ++i) {
      pthread_create(
          &thread, &attributes, [](void*) -> void* { return nullptr; }, nullptr);
      pthread_join(thread, nullptr);
    }
    return 4;
  }
  if (way == "handler") std::set_terminate([] { _exit(8); });
  if (way == "exit" || way == "quick_exit" || way == "_exit" || way == "abort" || way == "exception" ||
      way == "handler" || way == "fault") {
    // The first is not on rank 0.
    std::vector<std::thread> started;
    started.emplace_back(&work);
    for (std::thread& thread : started) thread.join();
  }
  for (int i = 0; i < threads; ++i) std::thread(&work).detach();
  if (way == "main_first" || way == "handing_on") pthread_exit(nullptr);
  for (int i = 0; i < threads; ++i) sem_wait(&elsewhere);
  if (way == "main_now") _exit(9);
  std::printf("main ends\n");
  return 3;
}
