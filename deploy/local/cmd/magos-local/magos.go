package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"magosproject.io/deploy/local/cluster"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/up"
)

// commands are those that work on Magos and its demo as a whole.
var commands = map[string]func(ctx context.Context, arguments []string, output io.Writer) error{
	"up": bringUp, "demo-push": push, "down": takeDown, "clean-cache": cleanCache,
}

// parse reads the flags that all commands share, and those that bind adds.
func parse(command string, arguments []string, output io.Writer, bind func(*flag.FlagSet)) (up.Options, error) {
	options := up.Options{Progress: output}
	flags := flag.NewFlagSet("magos-local "+command, flag.ContinueOnError)
	flags.StringVar(&options.Name, "name", "", "name of the local cluster; default $MAGOS_CLUSTER, or magos")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "use the cluster of this kubeconfig in place of a local one")
	flags.StringVar(&options.Registry, "registry", "", "with --kubeconfig: the registry to push images to, such as registry.example.com/team")
	if bind != nil {
		bind(flags)
	}
	if err := flags.Parse(arguments); err != nil {
		return options, err
	}
	if flags.NArg() > 0 {
		return options, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if options.Kubeconfig != "" && options.Name != "" {
		return options, errors.New("--name names a local cluster and --kubeconfig another one: give one of them")
	}
	return options, nil
}

func bringUp(ctx context.Context, arguments []string, output io.Writer) error {
	options, err := parse("up", arguments, output, nil)
	if err != nil {
		return err
	}
	started := time.Now()
	installation, err := up.Start(ctx, options)
	if err != nil {
		return err
	}
	if _, err := installation.Demo(ctx); err != nil {
		return err
	}
	if err := installation.Summary(ctx, output); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(output, "\nup in %s\n", time.Since(started).Round(time.Second))
	return nil
}

func push(ctx context.Context, arguments []string, output io.Writer) error {
	var text string
	options, err := parse("demo-push", arguments, output, func(flags *flag.FlagSet) {
		flags.StringVar(&text, "message", "", "the greeting to commit; default one with the present time")
	})
	if err != nil {
		return err
	}
	if text == "" {
		text = "Hello at " + time.Now().UTC().Format(time.RFC3339)
	}
	installation, err := up.Open(ctx, options)
	if err != nil {
		return err
	}
	commit, err := installation.PushMessage(ctx, text)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(output, "pushed commit %s: %s\n", commit, text)
	if _, err := installation.Follow(ctx, commit); err != nil {
		return err
	}
	return installation.Summary(ctx, output)
}

// cleanCache removes what was built and nobody uses any more.
func cleanCache(ctx context.Context, arguments []string, output io.Writer) error {
	unused := 24 * time.Hour
	options, err := parse("clean-cache", arguments, output, func(flags *flag.FlagSet) {
		flags.DurationVar(&unused, "unused-for", unused, "remove what nobody has used for so long; 0s for all that is not in use now")
	})
	if err != nil {
		return err
	}
	inUse, err := cluster.InUse(cluster.Config{Name: "any", StateRoot: options.StateRoot})
	if err != nil {
		return err
	}
	return parts.Builder{}.Prune(ctx, output, unused, inUse)
}

func takeDown(ctx context.Context, arguments []string, output io.Writer) error {
	options, err := parse("down", arguments, output, nil)
	if err != nil {
		return err
	}
	if err := up.Down(ctx, options); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(output, "nothing is left; what was built stays in the cache for the next time")
	return nil
}
