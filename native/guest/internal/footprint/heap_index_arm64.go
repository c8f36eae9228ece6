package footprint

// arenaBase is from where the runtime counts arenas.
const arenaBase uintptr = 0
