// Whether a rank may open the sockets and files that its connections need.
#pragma once

namespace ddprun {

struct RankInfo;

/// Throws CommError if too few file descriptors are left. Without this check the shortage shows
/// somewhere within the store or the backend, as a port that is taken or a rank that does not come.
void check_descriptors(const RankInfo& info);

}  // namespace ddprun
