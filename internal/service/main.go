package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"magosproject.io/internal/telemetry"
)

// Definition is what tells one service from another.
type Definition struct {
	// Name is the short name, such as "runner".
	Name string
	// Flags binds the service's own flags; nil for none.
	Flags func(*flag.FlagSet)
	// Validate checks the service's own settings after the flags are read; nil for none.
	Validate func() error
	// AddToScheme adds kinds beyond those of Magos and the built-in ones; nil for none.
	AddToScheme func(*runtime.Scheme) error
	// Options changes the manager's options, for instance what is cached and how; nil for none.
	Options func(Config, *ctrl.Options)
	// Setup adds controllers, RPC handlers and other runnables. Nothing runs yet.
	Setup func(context.Context, *Kit) error
}

// Main runs a service until SIGTERM or SIGINT, and ends the process: with 0 after an orderly end, 2 for wrong flags, else 1.
// A second signal ends it at once.
func Main(definition Definition) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, definition, os.Args[1:], os.Stderr))
}

// Run is Main without the process around it. It returns the exit code.
func Run(ctx context.Context, definition Definition, arguments []string, output io.Writer) int {
	config := NewDefaultConfig()
	flags := flag.NewFlagSet("magos-"+definition.Name, flag.ContinueOnError)
	flags.SetOutput(output)
	config.BindFlags(flags)
	ctrlconfig.RegisterFlags(flags)
	if definition.Flags != nil {
		definition.Flags(flags)
	}
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if err := validate(definition, config, flags); err != nil {
		_, _ = fmt.Fprintf(output, "magos-%s: wrong settings:\n%v\n", definition.Name, err)
		return 2
	}
	logger, err := telemetry.NewLogger(output, config.LogLevel, definition.Name)
	if err != nil {
		_, _ = fmt.Fprintln(output, err)
		return 2
	}
	telemetry.Adopt(logger)
	rest, err := ctrlconfig.GetConfig()
	if err != nil {
		logger.Error("finding the API server", "error", err)
		return 1
	}
	if err := RunWith(ctx, definition, config, rest, logger); err != nil {
		logger.Error("the service ends", "error", err)
		return 1
	}
	logger.Info("the service has ended in order")
	return 0
}

func validate(definition Definition, config Config, flags *flag.FlagSet) error {
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q is no flag", flags.Arg(0)))
	}
	errs = append(errs, config.Validate())
	if definition.Validate != nil {
		errs = append(errs, definition.Validate())
	}
	return errors.Join(errs...)
}
