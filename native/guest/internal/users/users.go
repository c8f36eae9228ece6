// Package users looks up users and groups in /etc/passwd and /etc/group, without the C library's name services.
package users

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// User is one user of the image.
type User struct {
	Name string
	UID  uint32
	GID  uint32
	Home string
	// Groups are the supplementary groups, GID included.
	Groups []uint32
}

// Lookup finds a user by name or by number. A number that is not in /etc/passwd is a user with the home `/`.
func Lookup(name string) (User, error) {
	number, numeric := parseID(name)
	if entry := find("/etc/passwd", func(fields []string) bool {
		return len(fields) >= 6 && (fields[0] == name || numeric && fields[2] == name)
	}); entry != nil {
		uid, uidOK := parseID(entry[2])
		gid, gidOK := parseID(entry[3])
		if !uidOK || !gidOK {
			return User{}, fmt.Errorf("user %q has a malformed entry in /etc/passwd", name)
		}
		home := entry[5]
		if home == "" {
			home = "/"
		}
		return User{Name: entry[0], UID: uid, GID: gid, Home: home, Groups: groups(entry[0], gid)}, nil
	}
	if numeric {
		return User{Name: name, UID: number, GID: number, Home: "/", Groups: []uint32{number}}, nil
	}
	if name == "root" {
		return User{Name: "root", Home: "/", Groups: []uint32{0}}, nil
	}
	return User{}, fmt.Errorf("user %q is not in /etc/passwd", name)
}

// OfIDs returns the user with these numbers, with the name and the home from /etc/passwd if it has them.
func OfIDs(uid, gid uint32) User {
	user, err := Lookup(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		user = User{Name: strconv.FormatUint(uint64(uid), 10), UID: uid, Home: "/"}
	}
	if user.GID != gid || len(user.Groups) == 0 {
		user.GID = gid
		user.Groups = append(user.Groups, gid)
	}
	return user
}

// Name returns the name of a UID, or the number as text.
func Name(uid uint32) string { return nameOf("/etc/passwd", uid) }

// GroupName returns the name of a GID, or the number as text.
func GroupName(gid uint32) string { return nameOf("/etc/group", gid) }

func nameOf(file string, id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	if entry := find(file, func(fields []string) bool { return len(fields) >= 3 && fields[2] == number }); entry != nil {
		return entry[0]
	}
	return number
}

func groups(name string, gid uint32) []uint32 {
	all := []uint32{gid}
	find("/etc/group", func(fields []string) bool {
		if len(fields) < 4 {
			return false
		}
		for member := range strings.SplitSeq(fields[3], ",") {
			if id, ok := parseID(fields[2]); ok && member == name && id != gid {
				all = append(all, id)
			}
		}
		return false
	})
	return all
}

// find returns the fields of the first line that matches.
func find(file string, matches func(fields []string) bool) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); matches(fields) {
			return fields
		}
	}
	return nil
}

func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil
}
