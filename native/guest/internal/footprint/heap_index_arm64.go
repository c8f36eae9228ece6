package footprint

// arenaBase is the address of the runtime's first arena.
const arenaBase uintptr = 0
