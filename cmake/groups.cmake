# Lets the compiler take several files of a target as one; see CRATON_FAST_BUILD. What a file keeps to itself, in its
# unnamed namespace, then needs a name that no other file of its room uses.
function(craton_group_files target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CRATON_FAST_BUILD} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# Precompiles what most files include, for those that do not come in groups. SAME_AS: a target with the same flags, which
# has it already.
function(craton_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "SAME_AS" "")
  if(NOT CRATON_FAST_BUILD)
    return()
  endif()
  if(ARG_SAME_AS)
    target_precompile_headers(${target} REUSE_FROM ${ARG_SAME_AS})
  else()
    target_precompile_headers(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp>" ${ARG_UNPARSED_ARGUMENTS})
  endif()
endfunction()
