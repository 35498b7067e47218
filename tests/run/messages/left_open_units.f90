! left_open_units FOLDER: each thread writes a line to a unit of its own and leaves it open.
program left_open_units
  use omp_lib
  implicit none
  character(len=4096) :: folder
  character(len=4200) :: name
  integer :: self
  call get_command_argument(1, folder)
  !$omp parallel private(name, self)
  self = omp_get_thread_num()
  write (name, '(a,a,i0)') trim(folder), '/', self
  open (unit=20 + self, file=trim(name), form='formatted', status='new')
  write (20 + self, '(a,i0)') 'a line of thread ', self
  !$omp end parallel
end program
