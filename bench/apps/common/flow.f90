! The flow problem that NPB's simulated applications solve: compressible Navier-Stokes on the unit cube, forced so that
! polynomials are the steady solution. RNR-94-007, section 3.2 to 3.4; common/flow.h says the same in C.
!
! A state is density, three momenta and energy. Point (i, j, k) of n^3 has index i + n (j + n k), from zero; a direction
! is 1, 2 or 3 and has the stride 1, n or n^2, so that one text serves all three. Arrays over points:
!
!   u        the state
!   prims    what many formulas need of it: 1 / density, velocities, kinetic energy / density
!   forcing  minus what the fluxes make of the exact solution
!   change   the right side, then what is added to u; zero on the boundary
!
! Subroutines with `!$omp do` are for all threads of a team.
module flow
  use npb, only: real64
  implicit none
  public

  integer, parameter :: components = 5, directions = 3, energy = 5
  real(real64), parameter :: c1 = 1.4_real64, c2 = 0.4_real64, c3c4 = 0.1_real64, c1c5 = 1.96_real64
  real(real64), parameter :: dissipation = 0.25_real64
  ! The second differences' weight of each direction.
  real(real64), parameter :: diffusion(directions) = [0.75_real64, 0.75_real64, 1.0_real64]
  real(real64), save :: sums(components)

contains

  pure function exact_state(place) result(exact)
    real(real64), intent(in) :: place(directions)
    real(real64) :: exact(components)
    real(real64), parameter :: c(components, 0:12) = reshape([ &
      2.0_real64, 1.0_real64, 2.0_real64, 2.0_real64, 5.0_real64, &
      0.0_real64, 0.0_real64, 2.0_real64, 2.0_real64, 4.0_real64, &
      0.0_real64, 0.0_real64, 0.0_real64, 0.0_real64, 3.0_real64, &
      4.0_real64, 0.0_real64, 0.0_real64, 0.0_real64, 2.0_real64, &
      5.0_real64, 1.0_real64, 0.0_real64, 0.0_real64, 0.1_real64, &
      3.0_real64, 2.0_real64, 2.0_real64, 2.0_real64, 0.4_real64, &
      0.5_real64, 3.0_real64, 3.0_real64, 3.0_real64, 0.3_real64, &
      0.02_real64, 0.01_real64, 0.04_real64, 0.03_real64, 0.05_real64, &
      0.01_real64, 0.03_real64, 0.03_real64, 0.05_real64, 0.04_real64, &
      0.03_real64, 0.02_real64, 0.05_real64, 0.04_real64, 0.03_real64, &
      0.5_real64, 0.4_real64, 0.3_real64, 0.2_real64, 0.1_real64, &
      0.4_real64, 0.3_real64, 0.5_real64, 0.1_real64, 0.3_real64, &
      0.3_real64, 0.5_real64, 0.4_real64, 0.3_real64, 0.2_real64], [components, 13])
    integer :: d
    exact = c(:, 0)
    do d = 1, directions
      exact = exact + place(d) * (c(:, d) + place(d) * (c(:, d + 3) + place(d) * (c(:, d + 6) + place(d) * c(:, d + 9))))
    end do
  end function exact_state

  ! Interpolated between the faces.
  pure function initial_state(place) result(initial)
    real(real64), intent(in) :: place(directions)
    real(real64) :: initial(components)
    real(real64) :: faces(components, directions), low(directions), high(directions)
    integer :: d
    do d = 1, directions
      low = place
      low(d) = 0
      high = place
      high(d) = 1
      faces(:, d) = place(d) * exact_state(high) + (1 - place(d)) * exact_state(low)
    end do
    initial = faces(:, 1) + faces(:, 2) + faces(:, 3) - faces(:, 1) * faces(:, 2) - faces(:, 1) * faces(:, 3) - &
      faces(:, 2) * faces(:, 3) + faces(:, 1) * faces(:, 2) * faces(:, 3)
  end function initial_state

  pure function point_place(n, i, j, k) result(place)
    integer, intent(in) :: n, i, j, k
    real(real64) :: place(directions)
    place = real([i, j, k], real64) / (n - 1)
  end function point_place

  pure subroutine primitives_of(u, prims)
    real(real64), intent(in) :: u(components)
    real(real64), intent(out) :: prims(components)
    prims(1) = 1 / u(1)
    prims(2:4) = u(2:4) * prims(1)
    prims(5) = 0.5_real64 * (u(2)**2 + u(3)**2 + u(4)**2) * prims(1)**2
  end subroutine primitives_of

  elemental function second_difference(left, middle, right) result(difference)
    real(real64), intent(in) :: left, middle, right
    real(real64) :: difference
    difference = right - 2 * middle + left
  end function second_difference

  ! Adds one direction's flux differences at a point with neighbours left and right.
  pure subroutine add_fluxes(direction, n, ul, um, ur, pl, pm, pr, total)
    integer, intent(in) :: direction, n
    real(real64), intent(in) :: ul(components), um(components), ur(components)
    real(real64), intent(in) :: pl(components), pm(components), pr(components)
    real(real64), intent(inout) :: total(components)
    real(real64) :: half, square, viscous, pressure_l, pressure_r
    integer :: m, normal
    normal = 1 + direction
    half = (n - 1) / 2.0_real64
    square = real(n - 1, real64)**2
    viscous = c3c4 * square
    pressure_l = c2 * (ul(energy) - pl(5) * ul(1))
    pressure_r = c2 * (ur(energy) - pr(5) * ur(1))
    do m = 1, components
      total(m) = total(m) + diffusion(direction) * square * second_difference(ul(m), um(m), ur(m))
    end do
    total(1) = total(1) - half * (ur(normal) - ul(normal))
    do m = 2, 4
      total(m) = total(m) + viscous * merge(4.0_real64 / 3, 1.0_real64, m == normal) * &
        second_difference(pl(m), pm(m), pr(m)) - half * (ur(m) * pr(normal) - ul(m) * pl(normal))
    end do
    total(normal) = total(normal) - half * (pressure_r - pressure_l)
    total(energy) = total(energy) + viscous * ((1 - c1c5) * second_difference(pl(5), pm(5), pr(5)) + &
      second_difference(pl(normal)**2, pm(normal)**2, pr(normal)**2) / 6 + &
      c1c5 * second_difference(ul(energy) * pl(1), um(energy) * pm(1), ur(energy) * pr(1))) - &
      half * ((ur(energy) + pressure_r) * pr(normal) - (ul(energy) + pressure_l) * pl(normal))
  end subroutine add_fluxes

  ! Adds one direction's fourth-order dissipation at point `at`; i is its place in the direction, 1 to n - 2.
  pure subroutine add_dissipation(n, i, u, at, stride, total)
    integer, intent(in) :: n, i, at, stride
    real(real64), intent(in) :: u(components, 0:n**3 - 1)
    real(real64), intent(inout) :: total(components)
    real(real64) :: fourth(components)
    fourth = merge(5, 6, i == 1 .or. i == n - 2) * u(:, at)
    if (i > 1) fourth = fourth - 4 * u(:, at - stride)
    if (i > 2) fourth = fourth + u(:, at - 2 * stride)
    if (i < n - 2) fourth = fourth - 4 * u(:, at + stride)
    if (i < n - 3) fourth = fourth + u(:, at + 2 * stride)
    total = total - dissipation * fourth
  end subroutine add_dissipation

  ! The derivatives of a direction's flux by the state: convective, and viscous without its difference factor.
  pure subroutine jacobians(direction, u, p, convective, viscous)
    integer, intent(in) :: direction
    real(real64), intent(in) :: u(components), p(components)
    real(real64), intent(out) :: convective(components, components), viscous(components, components)
    real(real64) :: conduction, heat
    integer :: m, normal
    normal = 1 + direction
    heat = c3c4 * c1c5 * p(1)
    convective = 0
    viscous = 0
    convective(1, normal) = 1
    do m = 2, 4
      conduction = c3c4 * merge(4.0_real64 / 3, 1.0_real64, m == normal) * p(1)
      convective(m, 1) = -p(m) * p(normal)
      convective(m, m) = convective(m, m) + p(normal)
      convective(m, normal) = convective(m, normal) + p(m)
      convective(normal, m) = convective(normal, m) - c2 * p(m)
      convective(energy, m) = -c2 * p(m) * p(normal)
      viscous(m, 1) = -conduction * p(m)
      viscous(m, m) = conduction
      viscous(energy, m) = (conduction - heat) * p(m)
      viscous(energy, 1) = viscous(energy, 1) - viscous(energy, m) * p(m)
    end do
    convective(normal, 1) = convective(normal, 1) + c2 * p(5)
    convective(normal, energy) = c2
    convective(energy, 1) = (2 * c2 * p(5) - c1 * u(energy) * p(1)) * p(normal)
    convective(energy, normal) = convective(energy, normal) + c1 * u(energy) * p(1) - c2 * p(5)
    convective(energy, energy) = c1 * p(normal)
    viscous(energy, 1) = viscous(energy, 1) - heat * p(1) * u(energy)
    viscous(energy, energy) = heat
  end subroutine jacobians

  ! Exact on the boundary, and exact or interpolated inside.
  subroutine start_from(n, u, exact_inside)
    integer, intent(in) :: n
    real(real64), intent(inout) :: u(components, 0:n**3 - 1)
    logical, intent(in) :: exact_inside
    integer :: i, j, k, at
    !$omp do schedule(static)
    do k = 0, n - 1
      do j = 0, n - 1
        do i = 0, n - 1
          at = i + n * (j + n * k)
          if (exact_inside .or. min(i, j, k) == 0 .or. max(i, j, k) == n - 1) then
            u(:, at) = exact_state(point_place(n, i, j, k))
          else
            u(:, at) = initial_state(point_place(n, i, j, k))
          end if
        end do
      end do
    end do
    !$omp end do
  end subroutine start_from

  ! change = factor * (forcing + fluxes of u)
  subroutine compute_change(n, factor, u, forcing, prims, change)
    integer, intent(in) :: n
    real(real64), intent(in) :: factor, u(components, 0:n**3 - 1), forcing(components, 0:n**3 - 1)
    real(real64), intent(inout) :: prims(components, 0:n**3 - 1), change(components, 0:n**3 - 1)
    real(real64) :: total(components)
    integer :: i, j, k, at, direction, places(directions), stride
    !$omp do schedule(static)
    do k = 0, n - 1
      do at = n * n * k, n * n * (k + 1) - 1
        call primitives_of(u(:, at), prims(:, at))
      end do
    end do
    !$omp end do
    !$omp do schedule(static)
    do k = 1, n - 2
      do j = 1, n - 2
        do i = 1, n - 2
          at = i + n * (j + n * k)
          places = [i, j, k]
          total = forcing(:, at)
          stride = 1
          do direction = 1, directions
            call add_fluxes(direction, n, u(:, at - stride), u(:, at), u(:, at + stride), prims(:, at - stride), &
              prims(:, at), prims(:, at + stride), total)
            call add_dissipation(n, places(direction), u, at, stride, total)
            stride = stride * n
          end do
          change(:, at) = factor * total
        end do
      end do
    end do
    !$omp end do
  end subroutine compute_change

  ! Also the first touch of all arrays, by the threads that own the planes.
  subroutine prepare(n, u, forcing, prims, change)
    integer, intent(in) :: n
    real(real64), intent(inout) :: u(components, 0:n**3 - 1), forcing(components, 0:n**3 - 1)
    real(real64), intent(inout) :: prims(components, 0:n**3 - 1), change(components, 0:n**3 - 1)
    integer :: k, first, last
    !$omp do schedule(static)
    do k = 0, n - 1
      first = n * n * k
      last = first + n * n - 1
      forcing(:, first:last) = 0
      change(:, first:last) = 0
    end do
    !$omp end do
    call start_from(n, u, .true.)
    call compute_change(n, 1.0_real64, u, forcing, prims, change)
    !$omp do schedule(static)
    do k = 1, n - 2
      first = n * n * k
      last = first + n * n - 1
      forcing(:, first:last) = -change(:, first:last)
    end do
    !$omp end do
    call start_from(n, u, .false.)
  end subroutine prepare

  ! u = u + factor * change
  subroutine add_change(n, factor, u, change)
    integer, intent(in) :: n
    real(real64), intent(in) :: factor, change(components, 0:n**3 - 1)
    real(real64), intent(inout) :: u(components, 0:n**3 - 1)
    integer :: k, at
    !$omp do schedule(static)
    do k = 1, n - 2
      do at = n * n * k, n * n * (k + 1) - 1
        u(:, at) = u(:, at) + factor * change(:, at)
      end do
    end do
    !$omp end do
  end subroutine add_change

  ! The root of the mean square over the inner points, into `sums`.
  subroutine find_residuals(n, change)
    integer, intent(in) :: n
    real(real64), intent(in) :: change(components, 0:n**3 - 1)
    integer :: k, at
    sums = 0
    !$omp parallel do schedule(static) reduction(+: sums)
    do k = 1, n - 2
      do at = n * n * k, n * n * (k + 1) - 1
        sums = sums + change(:, at)**2
      end do
    end do
    !$omp end parallel do
    sums = sqrt(sums / real(n - 2, real64)**3)
  end subroutine find_residuals

  ! How far u is from the exact solution, at points first to n - 1 - first of each side.
  subroutine find_errors(n, first, u)
    integer, intent(in) :: n, first
    real(real64), intent(in) :: u(components, 0:n**3 - 1)
    integer :: i, j, k
    sums = 0
    !$omp parallel do schedule(static) reduction(+: sums)
    do k = first, n - 1 - first
      do j = first, n - 1 - first
        do i = first, n - 1 - first
          sums = sums + (u(:, i + n * (j + n * k)) - exact_state(point_place(n, i, j, k)))**2
        end do
      end do
    end do
    !$omp end parallel do
    sums = sqrt(sums / real(n - 2, real64)**3)
  end subroutine find_errors

end module flow
