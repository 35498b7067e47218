/// \file
/// `ordered` parts of loops.
#include "omp/gomp/abi.hpp"

namespace craton::omp::gomp {

CRATON_GOMP void GOMP_ordered_start() {
  begin_ordered();
}
/// The turn goes on when the thread takes its next chunk.
CRATON_GOMP void GOMP_ordered_end() {}

}  // namespace craton::omp::gomp
