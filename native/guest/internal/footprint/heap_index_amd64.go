package footprint

// arenaBase is from where the runtime counts arenas: the lower end of the canonical addresses.
const arenaBase uintptr = 0xffff800000000000
