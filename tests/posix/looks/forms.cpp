/// \file
/// Loops as programs write them: in which a thread waits for others to change memory (wait_*), and others
/// (work_*). Compiled as users compile theirs, at several levels.
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <thread>

struct Node {
  std::atomic<Node*> next;
  std::atomic<int> state;
  int key;
  Node* left;
};

extern "C" {

std::atomic<int> form_flag;
std::atomic<bool> form_bell;
std::atomic<long> form_line[64];
volatile int form_volatile;
volatile double form_real;
int form_plain;
double form_table[64];
std::atomic<int> form_states[2];
Node form_node;
void form_other();

/// What they wait for.
void set_forms(int value) {
  form_flag = value;
  form_bell = value != 0;
  for (std::atomic<long>& each : form_line) each = value;
  form_volatile = value;
  form_real = value;
  form_plain = value;
  for (std::atomic<int>& each : form_states) each = value;
  form_node.state = value;
  form_node.next = value == 0 ? nullptr : &form_node;
}

void wait_acquire() {
  while (form_flag.load(std::memory_order_acquire) == 0) continue;
}
void wait_with_pause() {
  while (form_flag.load(std::memory_order_acquire) == 0) __builtin_ia32_pause();
}
void wait_with_yield() {
  while (form_flag.load(std::memory_order_acquire) != 3) std::this_thread::yield();
}
void wait_asleep() {
  while (form_flag.load(std::memory_order_relaxed) != 3) usleep(50);
}
void wait_asleep_longer() {
  const timespec moment{.tv_sec = 0, .tv_nsec = 1000};
  while (form_flag.load(std::memory_order_relaxed) != 3) nanosleep(&moment, nullptr);
}
void wait_volatile() {
  while (form_volatile == 0) continue;
}
void wait_real() {
  while (form_real == 0.0) continue;
}
void wait_in_array(int number) {
  while (form_line[number].load(std::memory_order_acquire) < number) sched_yield();
}
int wait_for_state(Node* node) {
  while (node->state.load(std::memory_order_acquire) == 0) continue;
  return node->key;
}
Node* wait_for_pointer(Node* node) {
  Node* next = nullptr;
  while ((next = node->next.load(std::memory_order_acquire)) == nullptr) continue;
  return next;
}
void wait_for_bit(std::atomic<unsigned char>* bits) {
  while ((bits->load(std::memory_order_acquire) & 4) != 0) continue;
}
void wait_for_sense(bool sense) {
  while (form_bell.load(std::memory_order_acquire) != sense) continue;
}
void wait_openmp() {
  for (;;) {
    int found = 0;
#pragma omp atomic read
    found = form_plain;
    if (found != 0) break;
  }
}
/// As C11's atomic_load.
void wait_builtin() {
  while (__atomic_load_n(&form_plain, __ATOMIC_ACQUIRE) == 0) continue;
}
void wait_builtin_at(const int* flag, int least) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < least) sched_yield();
}
/// Without optimisation the loop begins with what was found the turn before.
void wait_until_counted(int most) {
  for (int found = 0; found < most;) {
#pragma omp atomic read acquire
    found = form_plain;
  }
}
/// As clang makes it of libstdc++'s waits: a first look, and a jump into the middle of the loop of the
/// others.
bool wait_entered_behind();
asm(R"(
    .globl wait_entered_behind
    .type wait_entered_behind, @function
wait_entered_behind:
    .cfi_startproc
    mov form_bell@GOTPCREL(%rip), %rdx
    mov (%rdx), %al
    cmp $0, %al
    jne 3f
    xor %ecx, %ecx
    jmp 2f
1:  pause
    add $1, %ecx
    movzbl (%rdx), %eax
    cmp $0, %al
    jne 3f
2:  cmp $1000000000, %ecx
    jne 1b
3:  ret
    .cfi_endproc
    .size wait_entered_behind, .-wait_entered_behind
)");
/// With its pauses one by one.
void wait_at_length();
asm(R"(
    .globl wait_at_length
    .type wait_at_length, @function
wait_at_length:
    .cfi_startproc
    mov form_flag@GOTPCREL(%rip), %rdx
1:  mov (%rdx), %eax
    cmp $0, %eax
    jne 2f
    .rept 80
    pause
    .endr
    jmp 1b
2:  ret
    .cfi_endproc
    .size wait_at_length, .-wait_at_length
)");
/// For longer and longer.
void wait_backing_off() {
  int moments = 1;
  while (!form_bell.load(std::memory_order_acquire)) {
    for (int i = 0; i < moments; ++i) __builtin_ia32_pause();
    if (moments < 64) {
      moments *= 2;
    } else {
      std::this_thread::yield();
    }
  }
}
bool wait_not_for_ever(int most) {
  for (int i = 0; i < most; ++i) {
    if (form_bell.load(std::memory_order_acquire)) return true;
    __builtin_ia32_pause();
  }
  return false;
}
int wait_for_either(const std::atomic<int>* one, const std::atomic<int>* other) {
  for (;;) {
    if (one->load(std::memory_order_acquire) != 0) return 1;
    if (other->load(std::memory_order_acquire) != 0) return 2;
  }
}
/// What it stores comes when the wait is over.
void wait_then_store(int* result) {
  for (;;) {
    if (form_flag.load(std::memory_order_acquire) > 2) {
      *result = form_volatile;
      return;
    }
    if (form_bell.load(std::memory_order_acquire)) sched_yield();
  }
}
/// In turn for each of several.
void wait_for_all(const std::atomic<int>* flags, int count) {
  for (int i = 0; i < count; ++i)
    while (flags[i].load(std::memory_order_acquire) == 0) __builtin_ia32_pause();
}

std::size_t work_length(const char* text) {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}
double work_sum(const double* values, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] * form_table[3];
  return sum;
}
int work_list(const Node* node, int key) {
  int steps = 0;
  while (node != nullptr && node->key != key) {
    node = node->left;
    ++steps;
  }
  return steps;
}
/// Loads from a place that stays, only now and then, and so in the loop.
int work_conditional_load(const int* choices, int count, const int* weight) {
  int sum = 0;
  for (int i = 0; i < count; ++i)
    if (choices[i] > 3) sum += *weight;
  return sum;
}
int work_volatile_bound(const int* values) {
  int sum = 0;
  for (int i = 0; i < form_volatile; ++i) sum += values[i];
  return sum;
}
int work_search(const int* sorted, int count, int key) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (sorted[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
int work_divisor(int left, int right) {
  while (right != 0) {
    const int rest = left % right;
    left = right;
    right = rest;
  }
  return left;
}
void work_fill(int* values, int count, const std::atomic<int>* value) {
  for (int i = 0; i < count; ++i) values[i] = value->load(std::memory_order_relaxed);
}
/// Its store is seen by those that wait with it.
void work_hand_shake(std::atomic<int>* mine, const std::atomic<int>* other) {
  while (other->load(std::memory_order_acquire) == 0) mine->store(1, std::memory_order_release);
}
void work_until_told() {
  while (!form_bell.load(std::memory_order_acquire)) form_other();
}
void work_with_a_lock(std::atomic<int>* lock) {
  while (lock->exchange(1, std::memory_order_acquire) != 0) continue;
}
void work_with_fences() {
  while (form_plain == 0) std::atomic_thread_fence(std::memory_order_seq_cst);
}
int work_counting_looks() {
  int looks = 0;
  while (looks < 1000 && form_volatile == 0) ++looks;
  return looks;
}
const char* work_skip(const char* text, const bool* is_skipped) {
  while (is_skipped[static_cast<unsigned char>(*text)]) ++text;
  return text;
}
}
