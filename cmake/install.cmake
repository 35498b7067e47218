# What `cmake --install` puts where: the command, libcraton.so, the public headers, and what lets other builds find them
# (find_package(craton), pkg-config craton). The installed tree may be moved: nothing in it holds its own path.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(CRATON_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/craton)

install(TARGETS craton EXPORT craton-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS craton_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET craton_run)  # what the command loads into programs; nobody links it
  install(TARGETS craton_run craton_libomp LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/craton DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
# User-level threads are headers that need nothing else: craton::fiber, or -I.../include/craton/headers.
set(CRATON_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/craton/headers)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/fiber DESTINATION ${CRATON_HEADERS} FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/src/base/clock.hpp ${PROJECT_SOURCE_DIR}/src/base/function_ref.hpp
  ${PROJECT_SOURCE_DIR}/src/base/futex.hpp ${PROJECT_SOURCE_DIR}/src/base/kept_errno.hpp DESTINATION ${CRATON_HEADERS}/base)
add_library(craton_fiber INTERFACE)
target_compile_features(craton_fiber INTERFACE cxx_std_20)
target_include_directories(craton_fiber INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
  $<INSTALL_INTERFACE:${CRATON_HEADERS}>)
target_link_libraries(craton_fiber INTERFACE Threads::Threads)
set_target_properties(craton_fiber PROPERTIES EXPORT_NAME fiber)
install(TARGETS craton_fiber EXPORT craton-targets)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT craton-targets NAMESPACE craton:: DESTINATION ${CRATON_PACKAGE_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/craton-config.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/craton-config.cmake INSTALL_DESTINATION ${CRATON_PACKAGE_DIR})
# Until 1.0 a minor version may break what was built against the one before it.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/craton-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/craton-config.cmake ${PROJECT_BINARY_DIR}/cmake/craton-config-version.cmake
  DESTINATION ${CRATON_PACKAGE_DIR})

# The way from the folder of craton.pc to the prefix, which is chosen only at installation.
file(RELATIVE_PATH CRATON_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" CRATON_PREFIX_FROM_PC "${CRATON_PREFIX_FROM_PC}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/craton.pc.in ${PROJECT_BINARY_DIR}/cmake/craton.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/craton.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The manual of the options comes from their table, which the command knows.
set(CRATON_MANUAL ${PROJECT_BINARY_DIR}/man/craton-options.7)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
add_custom_command(OUTPUT ${CRATON_MANUAL}
  COMMAND craton_command info --options --man > ${CRATON_MANUAL} DEPENDS craton_command VERBATIM)
add_custom_target(craton_manual ALL DEPENDS ${CRATON_MANUAL})
install(FILES ${CRATON_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
