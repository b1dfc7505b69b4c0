package up

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"magosproject.io/deploy/local/cluster/parts"
)

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) `)

// forward makes a port of the cluster reachable on this machine, at a free port, until stop is called.
func (i *Installation) forward(ctx context.Context, namespace, target string, port int) (address string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	command := exec.CommandContext(ctx, i.programs[parts.Kubectl], "--kubeconfig", i.kubeconfig, "--namespace", namespace,
		"port-forward", "--address=127.0.0.1", target, ":"+strconv.Itoa(port))
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("forwarding to %s: %w", target, err)
	}
	stop = func() {
		cancel()
		// It was ended on purpose.
		_ = command.Wait()
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if match := forwarding.FindStringSubmatch(line); match != nil {
		return match[1], stop, nil
	}
	stop()
	return "", nil, fmt.Errorf("forwarding to %s: %w", target, errors.Join(err, errors.New(strings.TrimSpace(said.String()))))
}
