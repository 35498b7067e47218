/// \file
/// What programs can call and this runtime does not have: doacross loops, reductions over tasks, devices. The
/// job ends with a line that names it. None of these returns, so what they are given does not matter.
#include "omp/gomp/abi.hpp"

namespace craton::omp::gomp {

CRATON_GOMP void GOMP_doacross_post() {
  refuse("GOMP_doacross_post");
}
CRATON_GOMP void GOMP_doacross_ull_post() {
  refuse("GOMP_doacross_ull_post");
}
CRATON_GOMP void GOMP_doacross_ull_wait() {
  refuse("GOMP_doacross_ull_wait");
}
CRATON_GOMP void GOMP_doacross_wait() {
  refuse("GOMP_doacross_wait");
}
CRATON_GOMP void GOMP_loop_doacross_dynamic_start() {
  refuse("GOMP_loop_doacross_dynamic_start");
}
CRATON_GOMP void GOMP_loop_doacross_guided_start() {
  refuse("GOMP_loop_doacross_guided_start");
}
CRATON_GOMP void GOMP_loop_doacross_runtime_start() {
  refuse("GOMP_loop_doacross_runtime_start");
}
CRATON_GOMP void GOMP_loop_doacross_start() {
  refuse("GOMP_loop_doacross_start");
}
CRATON_GOMP void GOMP_loop_doacross_static_start() {
  refuse("GOMP_loop_doacross_static_start");
}
CRATON_GOMP void GOMP_loop_ull_doacross_dynamic_start() {
  refuse("GOMP_loop_ull_doacross_dynamic_start");
}
CRATON_GOMP void GOMP_loop_ull_doacross_guided_start() {
  refuse("GOMP_loop_ull_doacross_guided_start");
}
CRATON_GOMP void GOMP_loop_ull_doacross_runtime_start() {
  refuse("GOMP_loop_ull_doacross_runtime_start");
}
CRATON_GOMP void GOMP_loop_ull_doacross_start() {
  refuse("GOMP_loop_ull_doacross_start");
}
CRATON_GOMP void GOMP_loop_ull_doacross_static_start() {
  refuse("GOMP_loop_ull_doacross_static_start");
}
CRATON_GOMP void GOMP_offload_register() {
  refuse("GOMP_offload_register");
}
CRATON_GOMP void GOMP_offload_register_ver() {
  refuse("GOMP_offload_register_ver");
}
CRATON_GOMP void GOMP_offload_unregister() {
  refuse("GOMP_offload_unregister");
}
CRATON_GOMP void GOMP_offload_unregister_ver() {
  refuse("GOMP_offload_unregister_ver");
}
CRATON_GOMP void GOMP_parallel_reductions() {
  refuse("GOMP_parallel_reductions");
}
CRATON_GOMP void GOMP_target() {
  refuse("GOMP_target");
}
CRATON_GOMP void GOMP_target_data() {
  refuse("GOMP_target_data");
}
CRATON_GOMP void GOMP_target_data_ext() {
  refuse("GOMP_target_data_ext");
}
CRATON_GOMP void GOMP_target_end_data() {
  refuse("GOMP_target_end_data");
}
CRATON_GOMP void GOMP_target_enter_exit_data() {
  refuse("GOMP_target_enter_exit_data");
}
CRATON_GOMP void GOMP_target_ext() {
  refuse("GOMP_target_ext");
}
CRATON_GOMP void GOMP_target_update() {
  refuse("GOMP_target_update");
}
CRATON_GOMP void GOMP_target_update_ext() {
  refuse("GOMP_target_update_ext");
}
CRATON_GOMP void GOMP_task_reduction_remap() {
  refuse("GOMP_task_reduction_remap");
}
CRATON_GOMP void GOMP_taskgroup_reduction_register() {
  refuse("GOMP_taskgroup_reduction_register");
}
CRATON_GOMP void GOMP_taskgroup_reduction_unregister() {
  refuse("GOMP_taskgroup_reduction_unregister");
}
CRATON_GOMP void GOMP_teams() {
  refuse("GOMP_teams");
}
CRATON_GOMP void GOMP_teams4() {
  refuse("GOMP_teams4");
}
CRATON_GOMP void GOMP_workshare_task_reduction_unregister() {
  refuse("GOMP_workshare_task_reduction_unregister");
}

}  // namespace craton::omp::gomp
