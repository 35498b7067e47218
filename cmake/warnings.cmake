# Warnings are errors, in every target of ours; the sanitizers of CRATON_SANITIZE go the same way.
function(craton_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Wnull-dereference -Werror -fno-omit-frame-pointer
    "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Wold-style-cast;-Woverloaded-virtual>")
  # GCC 12 takes std::string's operator+ for an overlapping copy at -O3 (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  # CRATON_ASSERT takes the left side of a comparison by `<<`, as it is meant to bind.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-overloaded-shift-op-parentheses>")
  endif()
  if(CRATON_SANITIZE)
    # Instrumented code confuses the warnings that follow values; the release build has them.
    target_compile_options(${target} PRIVATE -Wno-null-dereference
      "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-array-bounds>"
      "$<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread>")
    # The thread sanitizer does not see fences; where one orders accesses between threads, an atomic beside it does too.
    if(CRATON_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-tsan)
    endif()
    target_compile_options(${target} PUBLIC -fsanitize=${CRATON_SANITIZE})
    target_link_options(${target} PUBLIC -fsanitize=${CRATON_SANITIZE})
    if(CRATON_SANITIZE MATCHES "undefined")
      # A third of the compile time for little: a null pointer that is used ends the program anyway, the address
      # sanitizer sees what lies beyond an object, and vptr only judges casts between classes.
      target_compile_options(${target} PUBLIC -fno-sanitize-recover=undefined -fno-sanitize=null,object-size,vptr)
    endif()
  endif()
endfunction()
