package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// forwardingSwitch decides whether the host passes packets on, which pods need to reach the world.
const forwardingSwitch = "/proc/sys/net/ipv4/ip_forward"

// hostRoutes asks the host which addresses are in use.
func hostRoutes(ctx context.Context) ([]netip.Prefix, error) {
	answer, err := output(ctx, "ip", "-json", "-4", "route", "show", "table", "all")
	if err != nil {
		return nil, err
	}
	return parseRoutes(answer)
}

// connect gives the node, a process in a network namespace of its own, its link to the host, and lets its pods reach
// the world under the host's address.
func connect(ctx context.Context, config Config, net network, pid int) error {
	link := config.linkName()
	if err := disconnect(ctx, config); err != nil {
		return err
	}
	commands := [][]string{
		{"ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(pid)},
		{"ip", "address", "add", fmt.Sprintf("%s/30", net.hostAddress()), "dev", link},
		{"ip", "link", "set", link, "up"},
		{"ip", "route", "replace", net.pods().String(), "via", net.nodeAddress().String(), "dev", link},
		{"ip", "route", "replace", net.services().String(), "via", net.nodeAddress().String(), "dev", link},
		// A firewall that drops forwarded packets by default (dockerd sets one up) would cut the pods off.
		{"iptables", "-w", "-I", "FORWARD", "-i", link, "-j", "ACCEPT"},
		{"iptables", "-w", "-I", "FORWARD", "-o", link, "-j", "ACCEPT"},
	}
	for _, command := range commands {
		if _, err := output(ctx, command[0], command[1:]...); err != nil {
			return fmt.Errorf("connecting the node to the host: %w", err)
		}
	}
	rules := fmt.Sprintf("table ip %[1]s {\n chain postrouting {\n  type nat hook postrouting priority srcnat;\n"+
		"  ip saddr { %[2]s, %[3]s } oifname != %[4]q masquerade\n }\n}\n", config.tableName(), net.link(), net.pods(), link)
	if _, err := outputWithInput(ctx, rules, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("letting pods reach the world: %w", err)
	}
	if err := os.WriteFile(forwardingSwitch, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("letting the host forward packets: %w", err)
	}
	return nil
}

// disconnect removes what connect made. What is not there is no error.
func disconnect(ctx context.Context, config Config) error {
	var faults []error
	for _, rule := range hostRules(ctx, config) {
		arguments := append([]string{"-w", "-D"}, strings.Fields(rule)[1:]...)
		if _, err := output(ctx, "iptables", arguments...); err != nil {
			faults = append(faults, fmt.Errorf("removing a rule of the host: %w", err))
		}
	}
	if hasTable(ctx, config) {
		if _, err := output(ctx, "nft", "delete", "table", "ip", config.tableName()); err != nil {
			faults = append(faults, fmt.Errorf("removing the host's table: %w", err))
		}
	}
	if hasLink(config) {
		// The link also goes by itself shortly after its namespace; losing that race is no fault.
		if _, err := output(ctx, "ip", "link", "delete", config.linkName()); err != nil && hasLink(config) {
			faults = append(faults, fmt.Errorf("removing the node's link: %w", err))
		}
	}
	return errors.Join(faults...)
}

func hasLink(config Config) bool {
	_, err := os.Stat("/sys/class/net/" + config.linkName())
	return err == nil
}

// hasTable and hostRules see nothing where the tools are missing: then nothing was made with them either.
func hasTable(ctx context.Context, config Config) bool {
	tables, err := output(ctx, "nft", "list", "tables", "ip")
	return err == nil && bytes.Contains(tables, []byte("table ip "+config.tableName()+"\n"))
}

func hostRules(ctx context.Context, config Config) []string {
	listing, err := output(ctx, "iptables", "-w", "-S", "FORWARD")
	if err != nil {
		return nil
	}
	var rules []string
	for _, line := range strings.Split(string(listing), "\n") {
		if strings.HasPrefix(line, "-A ") && strings.Contains(line, " "+config.linkName()+" ") {
			rules = append(rules, line)
		}
	}
	return rules
}

func output(ctx context.Context, name string, arguments ...string) ([]byte, error) {
	return outputWithInput(ctx, "", name, arguments...)
}

// outputWithInput runs a short command. Its error carries what the command said.
func outputWithInput(ctx context.Context, input, name string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
