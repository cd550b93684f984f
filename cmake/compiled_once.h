// Part of the precompiled headers: templates of libraries that most files use, and need not
// compile.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;  // in core/ddprun/base/json.cpp
#if FMT_VERSION < 100000                       // in the library, whose newer headers say so
extern template void fmt::detail::vformat_to(buffer<char>&, string_view,
                                             basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                                             locale_ref);
#endif
