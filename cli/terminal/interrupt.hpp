// Ctrl-C, and a polite kill: the program ends at once, whatever it computes, and leaves neither
// half a progress bar nor half a file behind.
#pragma once

#include <string>

namespace jfa::tool {

// For SIGINT, SIGTERM and SIGHUP. The program then dies of the signal, which a shell reports as
// 128 + its number: 130 for Ctrl-C.
void clean_up_when_interrupted();

// What there is to clean up.
void bar_on_terminal(bool shown);
void set_unfinished_file(const std::string& path);  // empty: none

}  // namespace jfa::tool
