// Package debian installs the Debian packages that a local cluster takes from the distribution instead of building
// them.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Requirement is a package, known to be there by a file or a program that it brings.
type Requirement struct {
	// Package is its name in Debian.
	Package string
	// Program is looked for in PATH; or File is an absolute path.
	Program string
	File    string
}

// ClusterRequirements are the packages that a cluster's node runs on.
func ClusterRequirements() []Requirement {
	return []Requirement{
		{Package: "containerd", Program: "containerd"},
		{Package: "containerd", Program: "ctr"},
		{Package: "runc", Program: "runc"},
		{Package: "containernetworking-plugins", File: "/usr/lib/cni/ptp"},
		{Package: "iproute2", Program: "ip"},
		{Package: "iptables", Program: "iptables"},
		{Package: "nftables", Program: "nft"},
		{Package: "conntrack", Program: "conntrack"},
		{Package: "mount", Program: "mount"},
	}
}

// Missing returns the names of the packages that are not installed, each once.
func Missing(requirements []Requirement) []string {
	var missing []string
	seen := map[string]bool{}
	for _, requirement := range requirements {
		if !requirement.present() && !seen[requirement.Package] {
			seen[requirement.Package] = true
			missing = append(missing, requirement.Package)
		}
	}
	return missing
}

func (r Requirement) present() bool {
	if r.File != "" {
		_, err := os.Stat(r.File)
		return err == nil
	}
	_, err := exec.LookPath(r.Program)
	return err == nil
}

// Ensure installs what is missing with apt-get and says what. It needs root. What the packages' own scripts start,
// such as a containerd service, is left alone.
func Ensure(ctx context.Context, progress io.Writer, requirements []Requirement) error {
	missing := Missing(requirements)
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing programs: this machine has no apt-get to install them with; install what Debian calls %s", names)
	}
	fmt.Fprintf(progress, "installing Debian packages: %s\n", names)
	started := time.Now()
	for _, arguments := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...),
	} {
		if err := aptGet(ctx, arguments); err != nil {
			return fmt.Errorf("installing Debian packages %s: %w", names, err)
		}
	}
	if still := Missing(requirements); len(still) > 0 {
		return fmt.Errorf("installing Debian packages: apt-get succeeded, but what %s should bring is not there",
			strings.Join(still, " "))
	}
	fmt.Fprintf(progress, "installed them in %s\n", time.Since(started).Round(100*time.Millisecond))
	return nil
}

func aptGet(ctx context.Context, arguments []string) error {
	// Another apt-get may hold the lock, as on a machine that has just booted.
	arguments = append([]string{"-o", "DPkg::Lock::Timeout=120"}, arguments...)
	command := exec.CommandContext(ctx, "apt-get", arguments...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1")
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	// An interrupted dpkg leaves half-configured packages: ask it to stop, and give it time to.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), errors.New("interrupted; `dpkg --configure -a` finishes what was begun"))
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("apt-get %s: %w:\n%s", arguments[2], err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}
