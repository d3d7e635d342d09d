# What every target of the project shares: language level, warnings, sanitizers, and one way to declare a test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(JFA_CCACHE ccache)
if(JFA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${JFA_CCACHE})
endif()

add_library(jfa_warnings INTERFACE)
target_compile_options(jfa_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                              -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 takes `"text" + std::string` for an overlapping copy (GCC bug 105651).
  target_compile_options(jfa_warnings INTERFACE -Wno-restrict)
endif()
if(JFA_WERROR)
  target_compile_options(jfa_warnings INTERFACE -Werror)
endif()

if(JFA_SANITIZE)
  add_compile_options(-fsanitize=${JFA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${JFA_SANITIZE})
endif()

# jfa_add_test(<name> SOURCES <files> [LIBRARIES <targets>]): one GoogleTest executable, one CTest entry.
function(jfa_add_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBRARIES" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES} jfa_warnings GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# jfa_add_schedules(<test>): the test again on the PTX machine with all its checkers, under schedules that let asynchronous
# work finish early, late, backwards and at random.
function(jfa_add_schedules name)
  foreach(schedule eager lazy reverse random)
    add_test(NAME ${name}_${schedule} COMMAND ${name})
    set_tests_properties(${name}_${schedule}
                         PROPERTIES ENVIRONMENT "JFA_EMULATOR=checks=all,schedule=${schedule},seed=1")
  endforeach()
endfunction()

# jfa_add_fuzzer(<name> SOURCES <files> [LIBRARIES <targets>]): a fuzz target with LLVMFuzzerTestOneInput and a corpus in
# corpus/<name>/. As a test it replays the corpus and a fixed number of seeded mutations of it (tests/fuzz/driver.cpp);
# with -DJFA_LIBFUZZER=ON and clang it is a libFuzzer executable.
option(JFA_LIBFUZZER "Link the fuzz targets with libFuzzer (clang)" OFF)
if(JFA_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
function(jfa_add_fuzzer name)
  cmake_parse_arguments(FUZZ "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${FUZZ_SOURCES})
  target_link_libraries(${name} PRIVATE ${FUZZ_LIBRARIES} jfa_warnings)
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  if(JFA_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=20000 -seed=1 -max_len=4096 ${corpus})
  else()
    target_sources(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../tests/fuzz/driver.cpp)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
  endif()
endfunction()
