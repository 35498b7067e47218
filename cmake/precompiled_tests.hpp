// Headers of others that most tests include; see CRATON_PRECOMPILE.
#pragma once

#include <gtest/gtest.h>

#include "precompiled.hpp"
