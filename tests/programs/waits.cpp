// The same in C++, whose functions have other names in the file.
#include "waits.c"
