# Finds LLVM, MLIR, clang and lld 19 and offers ds4_compiler_library(): a static
# library that sees their headers as system headers and links the two dylibs.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
find_package(Clang REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/clang)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/lld)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(ds4_llvm INTERFACE)
target_include_directories(ds4_llvm SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} ${CLANG_INCLUDE_DIRS}
  ${LLD_INCLUDE_DIRS})
# MLIR's headers are not clean under -Wextra even as system headers, since
# their templates are instantiated in our files.
target_compile_options(ds4_llvm INTERFACE -Wno-unused-parameter)
target_link_libraries(ds4_llvm INTERFACE MLIR LLVM)
if(DS4_SANITIZE MATCHES "address")
  # Otherwise allocators that LLVM's headers define in our code poison memory
  # that the packaged libraries, built without the sanitizer, then use.
  target_compile_options(ds4_llvm INTERFACE -U__SANITIZE_ADDRESS__)
endif()

# mlir_tablegen() that finds MLIR's .td files without include_directories().
macro(ds4_tablegen output)
  mlir_tablegen(${output} ${ARGN}
    EXTRA_INCLUDES ${MLIR_INCLUDE_DIRS} ${CMAKE_CURRENT_SOURCE_DIR})
endmacro()
