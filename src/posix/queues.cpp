// Queues of messages, of System V and of POSIX, and System V's other objects: what they take and give goes
// through private memory (kernel_memory.hpp). The kernel has them once for all ranks of a node.
#include <fcntl.h>
#include <mqueue.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include <cstdarg>
#include <cstddef>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __mq_open_2(const char* name, int flags);
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::descriptor_here;
using craton::posix::descriptor_made;
using craton::posix::Name;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::Value;
using craton::posix::Values;

/// How many semaphores the set has; 0 where nobody may know.
std::size_t semaphores_of(int set) noexcept {
  semid_ds status{};
  return CRATON_REAL(semctl)(set, 0, IPC_STAT, &status) == 0 ? status.sem_nsems : 0;
}

/// What is behind the last argument of semctl(); 0 where that is a number, or is not looked at.
std::size_t bytes_behind(int set, int command) noexcept {
  switch (command) {
    case IPC_STAT:
    case IPC_SET:
    case SEM_STAT:
    case SEM_STAT_ANY:
      return sizeof(semid_ds);
    case IPC_INFO:
    case SEM_INFO:
      return sizeof(seminfo);
    case GETALL:
    case SETALL:
      return semaphores_of(set) * sizeof(unsigned short);
    default:
      return 0;
  }
}

}  // namespace

#define CRATON_QUEUE(name) descriptor_here(queue, #name)

extern "C" {

// ---- Of System V

[[gnu::visibility("default")]] int semctl(int set, int number, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  const std::size_t bytes = bytes_behind(set, command);
  if (bytes == 0) return CRATON_REAL(semctl)(set, number, command, argument);
  return CRATON_REAL(semctl)(set, number, command, static_cast<void*>(Results(argument, bytes)));
}
CRATON_CALL(int, semop, (int set, sembuf* operations, std::size_t count),
            (set, Results(operations, count * sizeof *operations), count))
CRATON_CALL(int, semtimedop, (int set, sembuf* operations, std::size_t count, const timespec* timeout),
            (set, Results(operations, count * sizeof *operations), count, Value(timeout)))
CRATON_CALL(int, msgctl, (int queue, int command, msqid_ds* status), (queue, command, Result(status)))
CRATON_CALL(int, msgsnd, (int queue, const void* message, std::size_t bytes, int flags),
            (queue, Values(message, bytes + sizeof(long)), bytes, flags))
CRATON_CALL(ssize_t, msgrcv, (int queue, void* message, std::size_t bytes, long type, int flags),
            (queue, Results(message, bytes + sizeof(long)), bytes, type, flags))
CRATON_CALL(int, shmctl, (int memory, int command, shmid_ds* status), (memory, command, Result(status)))

// ---- Of POSIX, which are descriptors

[[gnu::visibility("default")]] mqd_t mq_open(const char* name, int flags, ...) {
  if ((flags & O_CREAT) == 0) return descriptor_made(CRATON_REAL(mq_open)(Name(name), flags));
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  const mq_attr* const attributes = va_arg(more, mq_attr*);
  va_end(more);
  return descriptor_made(
      CRATON_REAL(mq_open)(Name(name), flags, mode, static_cast<const mq_attr*>(Value(attributes))));
}
[[gnu::visibility("default")]] mqd_t __mq_open_2(const char* name, int flags) {
  return descriptor_made(CRATON_REAL(__mq_open_2)(Name(name), flags));
}
[[gnu::visibility("default")]] int mq_close(mqd_t queue) {
  craton::posix::refuse_foreign_close(queue);
  const craton::posix::ClosingDescriptor closing(queue);
  return CRATON_REAL(mq_close)(queue);
}
CRATON_CALL(int, mq_unlink, (const char* name), (Name(name)))
CRATON_CALL(int, mq_getattr, (mqd_t queue, mq_attr* attributes),
            (CRATON_QUEUE(mq_getattr), Result(attributes)))
CRATON_CALL(int, mq_setattr, (mqd_t queue, const mq_attr* attributes, mq_attr* before),
            (CRATON_QUEUE(mq_setattr), Value(attributes), Result(before)))
CRATON_CALL(int, mq_notify, (mqd_t queue, const sigevent* event), (CRATON_QUEUE(mq_notify), Value(event)))
CRATON_CALL(int, mq_send, (mqd_t queue, const char* message, std::size_t bytes, unsigned priority),
            (CRATON_QUEUE(mq_send), Values(message, bytes), bytes, priority))
CRATON_CALL(int, mq_timedsend,
            (mqd_t queue, const char* message, std::size_t bytes, unsigned priority, const timespec* until),
            (CRATON_QUEUE(mq_timedsend), Values(message, bytes), bytes, priority, Value(until)))
CRATON_CALL(ssize_t, mq_receive, (mqd_t queue, char* message, std::size_t bytes, unsigned* priority),
            (CRATON_QUEUE(mq_receive), Results(message, bytes), bytes, Result(priority)))
CRATON_CALL(ssize_t, mq_timedreceive,
            (mqd_t queue, char* message, std::size_t bytes, unsigned* priority, const timespec* until),
            (CRATON_QUEUE(mq_timedreceive), Results(message, bytes), bytes, Result(priority), Value(until)))

}  // extern "C"
