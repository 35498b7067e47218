/// \file
/// The messages between the runtimes of ranks.
#pragma once

#include <cstdint>

#include "omp/icvs.hpp"

namespace craton::omp {

struct Message {
  enum class Kind : std::uint32_t {
    work_here,        ///< a rank that could find no task at the sender may ask again
    ask,              ///< for a task
    lend,             ///< the answer: here is one
    none,             ///< the answer: there is none
    later,            ///< the answer: not before the one who asks has left the barrier that it waits at
    recall,           ///< a lent task is wanted back, if it has not begun
    unbegun,          ///< the answer: it had not, and is the receiver's again
    begun,            ///< the answer: it has, and will be returned
    ended,            ///< a lent task that was wanted back has ended, but not all that it made
    returned,         ///< a lent task has ended, with all that it made
    cancelled,        ///< a region, or a work share of it
    cancelled_group,  ///< of a task of the receiver's
    fulfilled,        ///< the event of a task of the receiver's
    turn,             ///< the ordered parts of a loop are done up to an iteration
    posted,           ///< iterations of a doacross loop are done up to one
    find_holder,      ///< of a lock
    unlock,           ///< a lock that the receiver holds
    about_lock,       ///< the answer to one of these: `part` says whether the sender holds it
  };
  Kind kind;
  std::uint32_t region;  ///< number of the region, modulo 2^16
  std::uint64_t id;      ///< of a task at its owner; of a work share; of a lock
  std::uint64_t value;   ///< how often the sender has offered work; a loan; where the turn is; what is posted
  std::uint64_t part;    ///< of a doacross loop: who posts; 1: a lock is held
  std::uint32_t meeting;  ///< barriers of the region that the sender has left
  struct Lent {
    void (*function)(void*);
    void* block;
    void* reductions;
    Icvs icvs;
    std::int32_t priority;
    bool is_final;
  } task;
};

}  // namespace craton::omp
