package footprint

// arenaBase is the address of the runtime's first arena: the lower end of the canonical addresses.
const arenaBase uintptr = 0xffff800000000000
