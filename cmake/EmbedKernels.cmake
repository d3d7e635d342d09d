# Writes the device code below a directory into one C++ file, as text:
#   cmake -DKERNELS=<directory> -DOUTPUT=<file.cpp> -P EmbedKernels.cmake
file(GLOB_RECURSE files RELATIVE ${KERNELS} ${KERNELS}/*.cu ${KERNELS}/*.cuh ${KERNELS}/*.h)
list(SORT files)

set(text "// Made by cmake/EmbedKernels.cmake from kernels/.\n#include \"jfa/jit.hpp\"\n\n")
string(APPEND text "namespace jfa::jit {\n\nconst SourceTree& embedded_sources() {\n")
string(APPEND text "  static const SourceTree tree{\n")
foreach(path IN LISTS files)
  file(READ ${KERNELS}/${path} content)
  string(APPEND text "{\"${path}\", R\"JFA_KERNEL(${content})JFA_KERNEL\"},\n")
endforeach()
string(APPEND text "  };\n  return tree;\n}\n\n}  // namespace jfa::jit\n")
file(WRITE ${OUTPUT} "${text}")
