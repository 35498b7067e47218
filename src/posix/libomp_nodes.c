/* Nothing: libcraton-libomp.so stands in for libomp.so.5 by its name and its version nodes only. What
   programs call is in libcraton-run.so, for both runtimes' names. */
typedef int craton_libomp_has_nothing;
