# Plain programs of OpenMP and of threads: as their own users would build them, with nothing of Craton.
find_package(OpenMP QUIET COMPONENTS C CXX)
if(NOT OpenMP_C_FOUND OR NOT OpenMP_CXX_FOUND)
  message(STATUS "The compiler has no OpenMP: without bench/apps and examples/openmp")
endif()

# Target app_NAME, binary bin/apps/NAME.
function(craton_openmp_program name source)
  if(OpenMP_C_FOUND AND OpenMP_CXX_FOUND)
    craton_plain_program(${name} ${source} -fopenmp)
  endif()
endfunction()

function(craton_thread_program name source)
  craton_plain_program(${name} ${source} -pthread)
endfunction()

function(craton_plain_program name source parallel)
  set(target app_${name})
  add_executable(${target} ${source})
  # What the whole project's libraries are built with, and these must not be.
  foreach(property POSITION_INDEPENDENT_CODE C_VISIBILITY_PRESET CXX_VISIBILITY_PRESET VISIBILITY_INLINES_HIDDEN)
    set_property(TARGET ${target} PROPERTY ${property})
  endforeach()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/apps
    C_STANDARD 11 Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target})
  # Warnings do not change what is built.
  target_compile_options(${target} PRIVATE -O2 ${parallel} -Wall -Wextra -Wpedantic -Werror
    "$<$<COMPILE_LANGUAGE:C,CXX>:-Wshadow;-Wconversion;-Wcast-align;-Wnull-dereference>"
    "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Woverloaded-virtual>")
  target_link_options(${target} PRIVATE ${parallel})
  target_link_libraries(${target} PRIVATE m)
endfunction()
