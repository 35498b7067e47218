/// \file
/// What C++ adds to regions: exceptions, virtual calls, thread_local and static objects, atomics.
#include <atomic>
#include <complex>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "check.h"

namespace {

class Shape {
 public:
  virtual ~Shape() = default;
  virtual int corners() const { return 0; }
};
class Triangle : public Shape {
 public:
  int corners() const override { return 3; }
};
class Polygon : public Shape {
 public:
  explicit Polygon(int corners) : corners_(corners) {}
  int corners() const override { return corners_; }

 private:
  int corners_;
};

std::atomic<int> constructed{0};
std::atomic<int> alive{0};

/// Counts what is made and destroyed, by any thread.
class Counted {
 public:
  explicit Counted(int value = 5) : value_(value) { count(); }
  Counted(const Counted& other) : value_(other.value_) { count(); }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --alive; }
  Counted& operator+=(const Counted& other) {
    value_ += other.value_;
    return *this;
  }
  int value() const { return value_; }

 private:
  static void count() {
    ++constructed;
    ++alive;
  }
  int value_;
};

class Adder {
 public:
  int run(int times) {
    int seen = 0;
#pragma omp parallel for reduction(+ : seen)
    for (int i = 0; i < times; ++i) {
      take_part();
#pragma omp atomic
      sum_ += i;
      ++seen;
    }
    return seen + sum_;
  }

 private:
  int sum_ = 0;
};

Counted& single_object() {
  static Counted object(42);
  return object;
}

thread_local std::vector<int> own_values{1, 2, 3};
thread_local int own_calls = 0;
std::string initialised_text = std::string(60, 'i') + "nitialised before main";
#pragma omp declare reduction(+ : Counted : omp_out += omp_in) initializer(omp_priv = Counted(0))
#pragma omp declare reduction(+ : std::complex <double> : omp_out += omp_in)

int deep(int depth) {
  if (depth == 0) throw std::out_of_range("too deep by far, with a message on the heap");
  const Counted here(depth);
  return deep(depth - 1) + here.value();
}

template <typename T>
T sum_up(const std::vector<T>& values) {
  T sum{};
#pragma omp parallel for reduction(+ : sum)
  for (std::size_t i = 0; i < values.size(); ++i) {
    take_part();
    sum += values[i];
  }
  return sum;
}

void throw_and_catch() {
  int caught = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 10; ++i) {
      try {
        deep(i);
      } catch (const std::logic_error& error) {
#pragma omp atomic
        caught += std::string(error.what()).size() == 43;
      }
    }
  }
  check_int("exceptions", caught);
  check_int("unwound objects", alive);
  std::exception_ptr passed;
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      try {
        throw std::runtime_error("thrown by the last thread");
      } catch (...) {
        passed = std::current_exception();
      }
    }
  }
  std::string message;
  try {
    std::rethrow_exception(passed);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  passed = nullptr;
  check_text("an exception of another thread", message.c_str());
}

void call_virtual() {
  const int team = omp_get_max_threads();
  std::vector<std::unique_ptr<Shape>> shapes(static_cast<std::size_t>(3 * team));
  int corners = 0;
  int triangles = 0;
#pragma omp parallel
  {
    take_part();
    const auto self = static_cast<std::size_t>(omp_get_thread_num());
    shapes[3 * self] = std::make_unique<Triangle>();
    shapes[3 * self + 1] = std::make_unique<Polygon>(5 + static_cast<int>(self));
    shapes[3 * self + 2] = std::make_unique<Shape>();
#pragma omp barrier
#pragma omp for reduction(+ : corners, triangles)
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Shape& shape = *shapes[shapes.size() - 1 - i];
      corners += shape.corners();
      triangles += dynamic_cast<const Triangle*>(&shape) != nullptr;
      triangles += 10 * (typeid(shape) == typeid(Polygon));
    }
  }
  check_int("virtual calls", corners);
  check_int("types", triangles);
  shapes.clear();
}

void make_and_copy() {
  constructed = 0;
  int values = 0;
#pragma omp parallel reduction(+ : values)
  {
    take_part();
    values += single_object().value();
  }
  check_int("a static object, made once", values * 10 + constructed);
  constructed = 0;
  Counted sum(1);
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 100; ++i) {
    take_part();
    sum += Counted(i);
  }
  check_int("reduction of objects", sum.value());
  const Counted first(3);
  int copies = 0;
#pragma omp parallel firstprivate(first) reduction(+ : copies)
  {
    take_part();
    copies += first.value();
  }
  check_int("firstprivate objects", copies);
  check_int("objects alive", alive - 3);

  long long own = 0;
  for (int turn = 0; turn < 2; ++turn) {
#pragma omp parallel reduction(+ : own)
    {
      take_part();
      own_values.push_back(omp_get_thread_num());
      ++own_calls;
      own += own_calls * 1000 + std::accumulate(own_values.begin(), own_values.end(), 0);
    }
  }
  check_int("thread_local objects", own);
}

void use_atomics() {
  std::atomic<long> counter{0};
  std::atomic<double> real{0};
  static std::atomic_flag flag = ATOMIC_FLAG_INIT;
  int flagged = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 100; ++i) {
      counter.fetch_add(i, std::memory_order_relaxed);
      double before = real.load();
      while (!real.compare_exchange_weak(before, before + 0.5)) continue;
    }
    for (int i = 0; i < 20; ++i) {
      while (flag.test_and_set(std::memory_order_acquire)) continue;
      ++flagged;
      flag.clear(std::memory_order_release);
    }
  }
  check_int("atomic objects", counter);
  check_real("atomic reals", real);
  check_int("atomic flag", flagged);
}

void run_in_methods() {
  Adder adder;
  check_int("regions in methods", adder.run(100));
  check_real("template of double", sum_up(std::vector<double>(1000, 0.25)));
  check_int("template of long", sum_up(std::vector<long>(1000, 3)));
  const auto turned = sum_up(std::vector<std::complex<double>>(100, {1, 2}));
  check_real("template of complex", turned.real() * 1000 + turned.imag());
  std::size_t length = 0;
#pragma omp parallel reduction(+ : length)
  {
    take_part();
    length += initialised_text.size();
  }
  check_int("objects made before main", static_cast<long long>(length));
}

void allocate() {
  int* pointers[most_threads] = {};
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    pointers[self] = new int[1000]();
#pragma omp barrier
    pointers[(self + 1) % omp_get_num_threads()][self] = 7;
#pragma omp barrier
    delete[] pointers[(self + omp_get_num_threads() / 2) % omp_get_num_threads()];
  }
  int bad_allocations = 0;
#pragma omp parallel
  {
    take_part();
    try {
      volatile std::size_t too_much = ~std::size_t{0} / 4;
      pointers[omp_get_thread_num()] = new int[too_much];
    } catch (const std::bad_alloc&) {
#pragma omp atomic
      ++bad_allocations;
    }
  }
  check_int("new and delete", bad_allocations);
  int in_tasks = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
    for (int i = 0; i < 20; ++i) {
      std::string name(static_cast<std::size_t>(30 + i), 'n');
#pragma omp task firstprivate(name)
      {
#pragma omp atomic
        in_tasks += static_cast<int>(name.size());
      }
    }
  }
  check_int("objects of tasks", in_tasks);
}

[[noreturn]] void terminate_quietly() {
  std::abort();
}

/// Of the process: before the first region, and between two.
void end_as_chosen() {
  const std::terminate_handler usual = std::set_terminate(&terminate_quietly);
  for (const std::terminate_handler chosen : {&terminate_quietly, usual}) {
    std::set_terminate(chosen);
    int right = 0;
#pragma omp parallel reduction(+ : right)
    {
      take_part();
      right += std::get_terminate() == chosen;
    }
    check_int("terminate handler", right);
  }
}

}  // namespace

int main() {
  end_as_chosen();
  throw_and_catch();
  call_virtual();
  make_and_copy();
  use_atomics();
  run_in_methods();
  allocate();
  return finish();
}
