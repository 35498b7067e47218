!> Variables of every kind that Fortran has, in regions.
module places
  use check, only: int64
  implicit none
  integer :: module_word = 3
  integer :: module_array(1000) = 0
  real(8), allocatable :: module_allocatable(:, :)
  integer, save :: own = 10
  real(8), allocatable, save :: own_allocatable(:)
  !$omp threadprivate(own, own_allocatable)

  type :: particle
    real(8) :: position(3) = 0
    integer, allocatable :: neighbours(:)
    character(len=20) :: name = ''
  end type

contains

  !> Arrays whose size the call gives, and saved variables.
  subroutine automatic(n, result)
    integer, intent(in) :: n
    integer(int64), intent(out) :: result
    integer :: row(n), i
    integer, save :: calls = 0
    calls = calls + 1
    row = 0
    !$omp parallel do
    do i = 1, n
      row(i) = i * calls
    end do
    result = sum(int(row, int64))
  end subroutine

  recursive integer function factorial(n) result(value)
    integer, intent(in) :: n
    value = 1
    if (n > 1) value = n * factorial(n - 1)
  end function
end module

program fortran_memory
  use omp_lib
  use check
  use places
  implicit none
  integer :: i, j, self, team, common_word, common_array(501), common_own, right
  integer(int64) :: total
  real(8) :: common_real
  real(8), allocatable :: field(:, :), grown(:)
  real(8), pointer :: pointed(:)
  real(8), target :: aimed(300)
  type(particle), allocatable :: particles(:)
  character(len=12) :: words(64)
  integer :: local(64), automatic_copy(50)
  common /shared_block/ common_real, common_word, common_array
  common /own_block/ common_own
  !$omp threadprivate(/own_block/)

  team = omp_get_max_threads()
  !$omp parallel private(self)
  call take_part()
  self = omp_get_thread_num()
  do j = self + 1, 1000, omp_get_num_threads()
    module_array(j) = j * module_word
  end do
  !$omp end parallel
  call check_int('module array', sum(int(module_array, int64)))

  common_word = 5
  common_real = 0.5d0
  !$omp parallel private(i)
  call take_part()
  !$omp do
  do i = 1, 500
    common_array(i) = i + common_word
  end do
  !$omp atomic
  common_real = common_real + 0.25d0
  !$omp end parallel
  call check_int('common block', sum(int(common_array(1:500), int64)))
  call check_real('common real', common_real)

  common_own = 7
  right = 0
  !$omp parallel copyin(/own_block/, own) reduction(+ : right)
  call take_part()
  common_own = common_own + omp_get_thread_num()
  own = own + common_own
  allocate (own_allocatable(10 + omp_get_thread_num()))
  own_allocatable = own
  !$omp barrier
  right = right + common_own + own
  !$omp end parallel
  call check_int('threadprivate, copied in', int(right, int64))
  right = 0
  !$omp parallel reduction(+ : right)
  call take_part()
  right = right + common_own + int(sum(own_allocatable))
  deallocate (own_allocatable)
  !$omp end parallel
  call check_int('threadprivate, kept', int(right, int64))

  allocate (field(100, 80), module_allocatable(40, 40))
  field = 1
  module_allocatable = 2
  !$omp parallel do collapse(2) schedule(static)
  do j = 1, 80
    do i = 1, 100
      call take_part()
      field(i, j) = field(i, j) + i * j
    end do
  end do
  call check_real('allocatable', sum(field))
  !$omp parallel
  call take_part()
  !$omp workshare
  module_allocatable = module_allocatable * 3 + 1
  field(1:40, 1:40) = module_allocatable
  where (field > 100) field = 0
  !$omp end workshare
  !$omp end parallel
  call check_real('workshare', sum(field))
  deallocate (field)

  !$omp parallel private(grown, j) reduction(+ : common_real)
  call take_part()
  allocate (grown(0))
  do j = 1, 50
    grown = [grown, real(j, 8)]
  end do
  common_real = common_real + sum(grown)
  deallocate (grown)
  !$omp end parallel
  call check_real('private allocatable', common_real)

  aimed = 0
  pointed => aimed(1:300:2)
  !$omp parallel do
  do i = 1, size(pointed)
    call take_part()
    pointed(i) = i
  end do
  call check_real('pointer', sum(aimed))

  allocate (particles(4 * team))
  !$omp parallel do schedule(static, 1)
  do i = 1, 4 * team
    call take_part()
    particles(i)%position = i * [1d0, 2d0, 3d0]
    allocate (particles(i)%neighbours(i))
    particles(i)%neighbours = [(j, j = 1, i)]
    write (particles(i)%name, '(a, i0)') 'particle ', i
  end do
  total = 0
  do i = 1, 4 * team
    total = total + sum(particles(i)%neighbours) + int(sum(particles(i)%position)) + len_trim(particles(i)%name)
  end do
  call check_int('derived types', total)
  !$omp parallel do schedule(static, 1)
  do i = 4 * team, 1, -1
    call take_part()
    deallocate (particles(i)%neighbours)
  end do
  call check_int('freed by others', int(count([(allocated(particles(i)%neighbours), i = 1, 4 * team)]), int64))

  words = ''
  !$omp parallel
  call take_part()
  write (words(omp_get_thread_num() + 1), '(a, i0)') 'thread ', omp_get_thread_num()
  !$omp end parallel
  call check_text('characters', trim(words(1))//', '//trim(words(team)))

  local = 0
  automatic_copy = 4
  !$omp parallel firstprivate(automatic_copy) shared(local)
  call take_part()
  automatic_copy = automatic_copy + omp_get_thread_num()
  local(omp_get_thread_num() + 1) = sum(automatic_copy)
  !$omp end parallel
  call check_int('locals of main', int(sum(local) + sum(automatic_copy), int64))
  call automatic(3000, total)
  call check_int('automatic array', total)
  call automatic(200, total)
  call check_int('saved variable', total)
  right = 0
  !$omp parallel do reduction(+ : right)
  do i = 1, 10
    call take_part()
    right = right + factorial(i)
  end do
  call check_int('recursion', int(right, int64))
  ! The library asks the C library's locale for the decimal point of these.
  write (words(1), '(f10.7)') 1.0_16 / 3
  call check_text('real of 16 bytes', trim(adjustl(words(1))))
  call finish()
end program
