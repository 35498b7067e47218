! Divides by zero in the last thread; built so that this is an end.
program divides
  use omp_lib
  implicit none
  real(8) :: quotient
  real(8), volatile :: zero
  zero = 0
  !$omp parallel private(quotient)
  if (omp_get_thread_num() == omp_get_num_threads() - 1) then
    quotient = 1 / zero
    print *, 'went on with', quotient
  end if
  !$omp end parallel
end program divides
