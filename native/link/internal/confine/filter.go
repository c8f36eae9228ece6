package confine

import (
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the system calls that link never makes once the network is set up: programs, namespaces, mounts, other
// processes, and parts of the kernel with a large attack surface. They fail with EPERM.
var denied = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_MKNODAT, unix.SYS_SETDOMAINNAME, unix.SYS_SETHOSTNAME, unix.SYS_PERSONALITY,
}

// deniedOnAMD64 are fork, vfork and mknod, which newer architectures do not have.
var deniedOnAMD64 = []uint32{57, 58, 133}

// audit are the values of AUDIT_ARCH_* (linux/audit.h). A filter that does not check them can be avoided with the system
// calls of another architecture.
var audit = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in struct seccomp_data (linux/seccomp.h) on little-endian machines.
const (
	numberOffset   = 0
	archOffset     = 4
	firstArgOffset = 16
)

// x32Bit marks system calls of the x32 interface of amd64.
const x32Bit = 0x40000000

// installFilter installs the filter on all threads. The process must have no_new_privs.
func installFilter() error {
	program := filter(audit[runtime.GOARCH])
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

func filter(arch uint32) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(test uint16, value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	program := []unix.SockFilter{
		load(archOffset),
		jump(unix.BPF_JEQ, arch, 1, 0),
		end(unix.SECCOMP_RET_KILL_PROCESS),
		load(numberOffset),
		jump(unix.BPF_JGE, x32Bit, 0, 1),
		end(unix.SECCOMP_RET_KILL_PROCESS),
		// Clone may only start threads. The arguments of clone3 cannot be checked; Go does not use it.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
		load(firstArgOffset),
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 0, 1),
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	numbers := denied
	if arch == unix.AUDIT_ARCH_X86_64 {
		numbers = slices.Concat(denied, deniedOnAMD64)
	}
	for _, number := range numbers {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)))
	}
	return append(program, end(unix.SECCOMP_RET_ALLOW))
}
