/**
 * \file craton.h
 * Craton: the memory of many machines as one memory. The C interface, C99.
 *
 * Status. Functions that can fail return a craton_status (or a negative number where they return one
 * otherwise) and leave a text for craton_last_error(). No function prints, and none ends the process, with
 * two exceptions that no caller could handle: a rank whose launcher has gone ends itself, and so does one
 * under mpirun or srun when another rank has died.
 *
 * Threads. Any thread may call any function, unless it says otherwise; each thread has its own last error.
 *
 * Death. When a rank dies, waits of the others end with CRATON_PEER_LOST, and `craton run` ends the job.
 */
#ifndef CRATON_CRATON_H
#define CRATON_CRATON_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CRATON_API __attribute__((visibility("default")))
#else
#define CRATON_API
#endif

/** Outcomes. The numbers stay the same in all versions; new ones may be added. */
typedef enum craton_status {
  CRATON_OK = 0,
  CRATON_INVALID_ARGUMENT =
      1, /**< what was asked makes no sense here: a rank out of range, a second craton_init */
  CRATON_OUT_OF_RESOURCES = 2, /**< memory, descriptors, a limit of the system */
  CRATON_NOT_SUPPORTED = 3,    /**< this machine, kernel or build cannot do it */
  CRATON_NOT_FOUND = 4,        /**< a file, host or library is not there */
  CRATON_PERMISSION = 5,       /**< the system refused it */
  CRATON_PEER_LOST = 6,        /**< a rank that was needed has died */
  CRATON_TIMED_OUT = 7,        /**< a time limit passed */
  CRATON_PROTOCOL = 8,         /**< a peer sent what it must not send */
  CRATON_SYSTEM = 9,           /**< another failure of a system call */
  CRATON_NOT_INITIALISED = 10  /**< craton_init has not succeeded yet, or craton_finalize has been called */
} craton_status;

/**
 * Joins the job and connects to its other ranks. Collective: every rank of the job calls it, once. Blocks
 * until all have, at most for the option connect-timeout (30 s).
 *
 * The job is found in the environment: that of `craton run`; else that of a launcher with PMIx (mpirun,
 * srun); else this process is a job of one. Call it early in main, before other threads are started: it
 * changes the environment, so that processes which this one starts do not take themselves for ranks.
 */
CRATON_API craton_status craton_init(void);

/**
 * Leaves the job. Collective: blocks until every rank is here. A rank that ends without it counts as failed
 * while others run. Not while another thread is in a Craton function. Craton cannot be initialised again
 * after it.
 */
CRATON_API craton_status craton_finalize(void);

/** 1 between a successful craton_init and craton_finalize, else 0. Does not block. */
CRATON_API int craton_initialized(void);

/** The number of this process in its job, 0 to craton_size() - 1; -1 while not initialised. Does not block.
 */
CRATON_API int craton_rank(void);

/** How many ranks the job has; -1 while not initialised. Does not block. */
CRATON_API int craton_size(void);

/**
 * The node of this rank: ranks with the same node share physical memory. Nodes are numbered from 0 in order
 * of their lowest rank. -1 while not initialised. Does not block.
 */
CRATON_API int craton_node(void);

/** The node of any rank; -1 while not initialised or if there is no such rank. Does not block. */
CRATON_API int craton_node_of(int rank);

/**
 * Waits until every rank is here. Collective. One thread of a rank at a time: a second one gets
 * CRATON_INVALID_ARGUMENT. Blocks without a time limit; `craton run --timeout` ends a job that does not get
 * on. After CRATON_PEER_LOST no barrier can be passed any more.
 */
CRATON_API craton_status craton_barrier(void);

/**
 * What the last failed call of this thread was asked, what happened, and what to do, in one line; "" if none
 * failed. Valid until the thread's next failing call.
 */
CRATON_API const char* craton_last_error(void);

/** The name of a status, as in "peer_lost"; "unknown" for other numbers. */
CRATON_API const char* craton_status_name(craton_status status);

/** The version of the library, as in "0.1.0". May differ from that of this header. */
CRATON_API const char* craton_version(void);

#ifdef __cplusplus
}
#endif

#endif
