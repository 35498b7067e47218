/// \file
/// A library with data, for foreign.c.
int numbers_of_library[1000];
