"""What one sandbox's clients can ask of the server."""

PORT = 49999
#: Of a request: the code and its variables.
MAX_BODY_BYTES = 16 << 20
MAX_HEADER_BYTES = 64 << 10
#: Kernels at one time. Each is a process.
MAX_CONTEXTS = 32
#: Executions that run in or wait for one kernel.
MAX_EXECUTIONS = 64
#: Output of one execution that its client has not read yet.
MAX_UNREAD_BYTES = 64 << 20
#: A line that only shows whether the client is still there.
KEEPALIVE_SECONDS = 5.0
KERNEL_START_SECONDS = 60.0
#: Of the guest's answer with the sandbox's variables.
MAX_VARIABLES_BYTES = 1 << 20
VARIABLES_SECONDS = 5.0
#: The part of the sandbox's memory limit at which a kernel is ended. gVisor's own memory counts too.
MEMORY_RESERVE = 0.12
#: No program fills memory faster, so that its use is known in time also where the server waits for a processor.
MAX_FILL_BYTES_PER_SECOND = 16 << 30
SHORTEST_MEMORY_PAUSE_SECONDS = 0.002
LONGEST_MEMORY_PAUSE_SECONDS = 0.5
#: A kernel that starts a process lifts its limit of addresses, which the process would inherit, at least for this time.
LIFTED_SECONDS = 0.2
#: A killed process frees its memory in this time.
LONGEST_RELEASE_SECONDS = 2.0
