# Compares the output of `ptxrun --coverage` with the document.
execute_process(COMMAND ${PTXRUN} --coverage OUTPUT_VARIABLE table OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
string(STRIP "${table}" table)
file(READ ${DOCUMENT} document)
string(FIND "${document}" "${table}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "the instruction table of ${DOCUMENT} is out of date: replace it by the output of ptxrun --coverage")
endif()
