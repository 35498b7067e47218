/// \file
/// What programs can call and this runtime does not have: doacross loops, reductions over tasks, devices. The
/// job ends with a line that names it. None of these returns, so what they are given does not matter.
#include "omp/gomp/abi.hpp"

namespace craton::omp::gomp {

#define CRATON_REFUSED(name) \
  CRATON_GOMP void name() {  \
    refuse(#name);           \
  }
CRATON_REFUSED(GOMP_doacross_post)
CRATON_REFUSED(GOMP_doacross_ull_post)
CRATON_REFUSED(GOMP_doacross_ull_wait)
CRATON_REFUSED(GOMP_doacross_wait)
CRATON_REFUSED(GOMP_loop_doacross_dynamic_start)
CRATON_REFUSED(GOMP_loop_doacross_guided_start)
CRATON_REFUSED(GOMP_loop_doacross_runtime_start)
CRATON_REFUSED(GOMP_loop_doacross_start)
CRATON_REFUSED(GOMP_loop_doacross_static_start)
CRATON_REFUSED(GOMP_loop_ull_doacross_dynamic_start)
CRATON_REFUSED(GOMP_loop_ull_doacross_guided_start)
CRATON_REFUSED(GOMP_loop_ull_doacross_runtime_start)
CRATON_REFUSED(GOMP_loop_ull_doacross_start)
CRATON_REFUSED(GOMP_loop_ull_doacross_static_start)
CRATON_REFUSED(GOMP_offload_register)
CRATON_REFUSED(GOMP_offload_register_ver)
CRATON_REFUSED(GOMP_offload_unregister)
CRATON_REFUSED(GOMP_offload_unregister_ver)
CRATON_REFUSED(GOMP_parallel_reductions)
CRATON_REFUSED(GOMP_target)
CRATON_REFUSED(GOMP_target_data)
CRATON_REFUSED(GOMP_target_data_ext)
CRATON_REFUSED(GOMP_target_end_data)
CRATON_REFUSED(GOMP_target_enter_exit_data)
CRATON_REFUSED(GOMP_target_ext)
CRATON_REFUSED(GOMP_target_update)
CRATON_REFUSED(GOMP_target_update_ext)
CRATON_REFUSED(GOMP_task_reduction_remap)
CRATON_REFUSED(GOMP_taskgroup_reduction_register)
CRATON_REFUSED(GOMP_taskgroup_reduction_unregister)
CRATON_REFUSED(GOMP_teams)
CRATON_REFUSED(GOMP_teams4)
CRATON_REFUSED(GOMP_workshare_task_reduction_unregister)

}  // namespace craton::omp::gomp
