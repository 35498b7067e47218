# Lets the compiler take several files of a target as one; see CRATON_FAST_BUILD. What a file keeps to itself, in its
# unnamed namespace, then needs a name that no other file of its room uses.
function(craton_group_files target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CRATON_FAST_BUILD} UNITY_BUILD_BATCH_SIZE 8)
endfunction()
