!> Torture of Fortran's atomic construct: every form on every intrinsic type and kind, on neighbouring words, by all
!> threads at once. Sums are exact.
program fortran_atomics
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use omp_lib
  use check
  implicit none
  integer, parameter :: turns = 20
  integer, parameter :: real80 = selected_real_kind(18)
  integer(int8) :: bytes(6)
  integer(int16) :: halves(6)
  integer(int32) :: words(8)
  integer(int64) :: longs(6)
  real(real32) :: singles(4)
  real(real64) :: doubles(5)
  real(real80) :: extended(4)
  complex(real32) :: complexes(2)
  complex(real64) :: double_complexes(2)
  logical :: truths(5)
  integer(int64) :: balance, mine
  integer :: i, self
  integer(int32) :: v
  integer(int64) :: w
  real(real64) :: d

  bytes = 0
  halves = 0
  !$omp parallel private(i)
  call take_part()
  do i = 1, turns
    !$omp atomic
    bytes(1) = bytes(1) + 1_int8
    !$omp atomic update
    bytes(2) = ieor(bytes(2), int(mod(i, 7), int8))
    !$omp atomic seq_cst
    bytes(3) = ior(bytes(3), int(mod(i, 5), int8))
    !$omp atomic
    bytes(4) = max(bytes(4), int(i, int8))
    !$omp atomic
    halves(1) = halves(1) + 3_int16
    !$omp atomic
    halves(2) = 1_int16 - halves(2)
    !$omp atomic relaxed
    halves(3) = min(halves(3), int(-i, int16))
    !$omp atomic
    halves(4) = halves(4) - 2_int16
  end do
  !$omp end parallel
  call check_int('integer(1)', sum(int(bytes, int64) * [1, 100, 10000, 1000000, 0, 0]))
  call check_int('integer(2)', sum(int(halves, int64) * [1, 100, 10000, 1000000, 0, 0]))

  words = 0
  words(4) = 1
  words(5) = -1
  longs = 0
  balance = 0
  !$omp parallel private(i, v, w, mine, self)
  call take_part()
  self = omp_get_thread_num()
  mine = 0
  do i = 1, turns
    !$omp atomic capture
    v = words(1)
    words(1) = words(1) + 1
    !$omp end atomic
    mine = mine + v
    !$omp atomic capture seq_cst
    words(1) = words(1) - 1
    v = words(1)
    !$omp end atomic
    mine = mine - v
    !$omp atomic capture
    v = words(2)
    words(2) = self + i
    !$omp end atomic
    mine = mine + (self + i) - v
    !$omp atomic update acq_rel
    words(3) = words(3) + i
    !$omp end atomic
    !$omp atomic
    words(4) = words(4) * 3
    !$omp atomic
    words(5) = iand(words(5), not(ishft(1, mod(i, 9))))
    !$omp atomic write
    words(6) = 7
    !$omp atomic read
    v = words(6)
    if (v == 7) mine = mine + 1
    !$omp atomic
    longs(1) = longs(1) + 4294967297_int64
    !$omp atomic capture
    w = longs(2)
    longs(2) = longs(2) + 1
    !$omp end atomic
    mine = mine + w
    !$omp atomic capture
    longs(2) = longs(2) - 1
    w = longs(2)
    !$omp end atomic
    mine = mine - w
    !$omp atomic
    longs(3) = max(longs(3), int(i * 100 + self, int64))
  end do
  !$omp atomic
  balance = balance + mine
  !$omp end parallel
  call check_int('captures of integers', balance - words(2))
  call check_int('integer(4)', int(words(1) + 10 * words(3) + words(4) + words(5), int64))
  call check_int('integer(8)', longs(1) + longs(2) + longs(3))

  singles = 0
  doubles = 0
  doubles(4) = 1024
  extended = 0
  !$omp parallel private(i, d)
  call take_part()
  do i = 1, turns
    !$omp atomic
    singles(1) = singles(1) + 1.5
    !$omp atomic
    singles(2) = singles(2) - 0.25
    !$omp atomic
    singles(3) = max(singles(3), real(i))
    !$omp atomic
    doubles(1) = doubles(1) + 0.5d0
    !$omp atomic
    doubles(2) = 1 - doubles(2)
    !$omp atomic capture
    doubles(3) = doubles(3) + 2
    d = doubles(3)
    !$omp end atomic
    if (mod(d, 2d0) /= 0) error stop 'a capture between two steps'
    !$omp atomic
    extended(1) = extended(1) + 0.125_real80
    !$omp atomic
    extended(2) = extended(2) - 3
  end do
  !$omp atomic
  doubles(4) = doubles(4) / 2
  !$omp end parallel
  call check_int('real(4)', int(sum(singles * [8, 64, 512, 0]), int64))
  call check_int('real(8)', int(sum(doubles * [1024d0, 16384d0, 32768d0, 1024d0, 0d0]), int64))
  call check_int('real(10)', int(sum(extended * [8, 1000, 0, 0]), int64))

  complexes = 0
  double_complexes = 0
  double_complexes(2) = 1
  truths = .false.
  truths(2) = .true.
  !$omp parallel private(i)
  call take_part()
  do i = 1, turns
    !$omp atomic
    complexes(1) = complexes(1) + (1.0, 2.0)
    !$omp atomic
    double_complexes(1) = double_complexes(1) + (3d0, -1d0)
    !$omp atomic
    double_complexes(2) = double_complexes(2) * (0d0, 1d0)
    !$omp atomic
    truths(1) = truths(1) .or. mod(i, 3) == 0
    !$omp atomic
    truths(2) = truths(2) .and. i > 0
    !$omp atomic
    truths(3) = truths(3) .neqv. .true.
    !$omp atomic
    truths(4) = truths(4) .eqv. .false.
  end do
  !$omp end parallel
  call check_int('complex(4)', int(real(complexes(1)) * 1000 + aimag(complexes(1)), int64))
  call check_int('complex(8)', int(real(double_complexes(1)) * 1000 + aimag(double_complexes(1)) &
                                   + 7 * real(double_complexes(2)) + 5 * aimag(double_complexes(2)), int64))
  call check_int('logical', int(count(truths) + merge(10, 0, truths(3)) + merge(100, 0, truths(4)), int64))
  call finish()
end program
