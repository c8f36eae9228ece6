package dnsrelay

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"ramet.dev/native/link/internal/fault"
)

const (
	resolvConf = "/etc/resolv.conf"
	// recheck is how long the content of /etc/resolv.conf is cached: laptops change networks.
	recheck = 5 * time.Second
)

// Fixed parses configured resolvers: addresses with an optional port.
func Fixed(texts []string) (func() []string, error) {
	var all []string
	for _, text := range texts {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fault.New("InvalidArgument", "Write an IP address, or one with :port", "Reading link's configuration failed: the DNS resolver %q is not an address", text)
			}
			at = netip.AddrPortFrom(address, 53)
		}
		all = append(all, at.String())
	}
	return func() []string { return all }, nil
}

// OfMachine returns the resolvers of this Pod or machine, and re-reads resolv.conf when it may have changed.
func OfMachine() func() []string {
	var mu sync.Mutex
	var at time.Time
	var all []string
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(at) > recheck {
			at, all = now, readResolvConf(resolvConf)
		}
		return all
	}
}

func readResolvConf(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var all []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "nameserver" {
			all = append(all, net.JoinHostPort(fields[1], "53"))
		}
	}
	return all
}
