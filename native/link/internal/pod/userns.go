package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"ramet.dev/native/link/internal/fault"
)

// mapIDs makes the caller root of the new user namespace and maps no other id, even if the caller has subordinate ids:
// the caller could not remove files that one of those owns.
func mapIDs(pid int) error {
	// An unprivileged process can map a group only if setgroups(2) is disabled (user_namespaces(7)).
	proc := fmt.Sprintf("/proc/%d/", pid)
	for _, write := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("0 %d 1", os.Geteuid())},
		{"gid_map", fmt.Sprintf("0 %d 1", os.Getegid())},
	} {
		if err := os.WriteFile(proc+write.file, []byte(write.text), 0); err != nil {
			return refusal(true, err)
		}
	}
	return nil
}

// refusal returns the fault for rejected namespaces: it names the kernel setting that rejects them and how to change it.
func refusal(userNamespace bool, err error) *fault.Fault {
	const what = "Creating the namespaces of a pod failed: %v"
	if !userNamespace {
		return fault.New("HostUnsupported", "Run it with CAP_SYS_ADMIN, or as an unprivileged user", what, err)
	}
	if name, hint := switchedOff(); name != "" {
		return fault.New("HostUnsupported", hint, what+", because of the sysctl %s", err, name)
	}
	hint := "Allow user namespaces for this user, or run as root"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) {
		hint = "Raise the sysctl user.max_user_namespaces: too many are in use"
	}
	return fault.New("HostUnsupported", hint, what+" (seccomp, a container's profile or chroot may refuse user namespaces)", err)
}

// switchedOff returns the sysctl that denies user namespaces to unprivileged users here, and a hint.
func switchedOff() (name, hint string) {
	for _, s := range []struct{ name, off, hint string }{
		{"user.max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
		{"kernel.unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{appArmorSwitch, "1", "sysctl -w " + appArmorSwitch + "=0, or give ramet-link an AppArmor profile with `userns,`"},
	} {
		if sysctl(s.name) == s.off {
			return s.name + "=" + s.off, "As root: " + s.hint
		}
	}
	return "", ""
}

// appArmorSwitch, which Ubuntu sets since 23.10, removes all capabilities in a user namespace: creating it succeeds, but
// the first mount in it fails.
const appArmorSwitch = "kernel.apparmor_restrict_unprivileged_userns"

func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func line(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "{}"
	}
	return string(text)
}
