package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/seal"
	"magosproject.io/services/runner/internal/executor/tfvars"
	"magosproject.io/services/runner/internal/executor/toolchain"
	"magosproject.io/services/runner/internal/runspec"
)

// maxState bounds the state file that is kept when the backend could not take it, in bytes.
const maxState = 1 << 30

// apply is the part of tool in the pod of an apply. It runs exactly what was sealed, at most once.
func (c *container) apply(ctx context.Context) ([]byte, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	claim, err := c.openClaim()
	if err != nil {
		return nil, err
	}
	defer func() { _ = claim.Close() }()
	manifest, err := c.unseal()
	if err != nil {
		return nil, err
	}
	if err := checkTool(manifest); err != nil {
		return nil, err
	}
	env, err := c.offlineEnvironment()
	if err != nil {
		return nil, err
	}
	variables, err := c.variablesAtApply()
	if err != nil {
		return nil, err
	}
	forms := mask.NewForms(append(c.keptConfidential(), c.confidential(variables)...))
	g, arguments, err := c.giveAgain(variables, manifest)
	if err != nil {
		return nil, err
	}
	defer g.close()
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if err := c.claim(claim); err != nil {
		return nil, err
	}
	work := c.cfg.Paths.work(c.in.RunID)
	t := tool{
		container: c, path: manifest.Tool, dir: filepath.Join(work, manifest.Module),
		env: append(env, g.environment...), files: g.files(), forms: forms, reason: reasonApplyFailed,
	}
	_, err = t.run(ctx, append(append([]string{"apply", "-input=false", "-no-color"}, arguments...), filepath.Join(work, manifest.Plan))...)
	return nil, c.rescueState(claim, manifest, err)
}

// variablesAtApply are the variables with the values that they have by now, if those are mounted.
func (c *container) variablesAtApply() ([]variable, error) {
	if _, err := os.Stat(c.cfg.Paths.Variables); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return c.readVariables()
}

// giveAgain gives the tool the ephemeral variables, which no plan keeps. It gets no others: the plan has their values, and
// OpenTofu refuses an apply to which another one is given. The file of variables goes along where an ephemeral one stands
// in it; it is as it was planned, so that the others in it equal the plan's.
func (c *container) giveAgain(variables []variable, manifest seal.Manifest) (given, []string, error) {
	work, err := os.OpenRoot(c.cfg.Paths.work(c.in.RunID))
	if err != nil {
		return given{}, nil, fmt.Errorf("opening the working copy: %w", err)
	}
	defer func() { _ = work.Close() }()
	declared, err := tfvars.Declarations(work, manifest.Module, manifest.Engine)
	if err != nil {
		return given{}, nil, err
	}
	isEphemeral := func(name string) bool { return declared[name].Ephemeral }
	ephemeral := slices.DeleteFunc(slices.Clone(variables), func(v variable) bool { return !isEphemeral(v.name) })
	g, err := c.give(ephemeral, declared)
	if err != nil || manifest.TfvarsFile == "" {
		return g, g.arguments(), err
	}
	defined, err := tfvars.Defined(work, manifest.TfvarsFile)
	if err != nil || !slices.ContainsFunc(defined, isEphemeral) {
		return g, g.arguments(), err
	}
	return g, append([]string{"-var-file=" + filepath.Join(work.Name(), manifest.TfvarsFile)}, g.arguments()...), nil
}

// openClaim opens the folder of the claim and refuses a plan that was claimed: it need not be unpacked to know that.
func (c *container) openClaim() (*beneath.Dir, error) {
	claim, err := beneath.OpenDir(c.cfg.Paths.claim(c.in.RunID))
	if err != nil {
		return nil, failf(runspec.ExitStorageNotWritable, reasonStorageNotWritable, "opening the claim: %w", err)
	}
	_, err = claim.Lstat(claimMark)
	switch {
	case err == nil:
		err = errUsed
	case errors.Is(err, fs.ErrNotExist):
		return claim, nil
	}
	return nil, errors.Join(err, claim.Close())
}

var errUsed = fail(runspec.ExitAlreadyUsed, reasonAlreadyUsed,
	errors.New("this plan was claimed by an apply before; a plan is applied once at most, so the way on is a new run"))

// claim marks the plan as used, durably, before anything of it is done.
func (c *container) claim(dir *beneath.Dir) error {
	file, err := dir.Create(claimMark, 0o440)
	if errors.Is(err, fs.ErrExist) {
		return errUsed
	}
	if err == nil {
		_, err = file.WriteString(c.in.RunID + " " + c.in.PlanDigest + "\n")
		err = errors.Join(err, file.Sync(), file.Close(), dir.Sync())
	}
	if err != nil {
		return failf(runspec.ExitStorageNotWritable, reasonStorageNotWritable, "claiming the plan: %w", err)
	}
	return nil
}

// unseal proves the whole seal and copies it to where it was planned.
func (c *container) unseal() (seal.Manifest, error) {
	sealed, err := beneath.OpenDir(c.cfg.Paths.sealed(c.in.RunID))
	if err != nil {
		return seal.Manifest{}, failf(runspec.ExitSealBroken, reasonSealBroken, "opening the seal: %w", err)
	}
	defer func() { _ = sealed.Close() }()
	manifest, err := seal.Read(sealed, c.in.PlanDigest)
	if err != nil {
		return seal.Manifest{}, fail(runspec.ExitSealBroken, reasonSealBroken, err)
	}
	if manifest.RunID != c.in.RunID || manifest.Revision != c.in.Revision ||
		manifest.Engine != c.in.Engine || manifest.ToolVersion != c.in.ToolVersion {
		return seal.Manifest{}, failf(runspec.ExitSealBroken, reasonSealBroken,
			"the seal is of run %s, commit %s, %s %s", manifest.RunID, manifest.Revision, manifest.Engine, manifest.ToolVersion)
	}
	tree, err := sealed.Dir(seal.TreeName)
	if err != nil {
		return seal.Manifest{}, failf(runspec.ExitSealBroken, reasonSealBroken, "opening the seal: %w", err)
	}
	defer func() { _ = tree.Close() }()
	if err := manifest.Verify(tree); err != nil {
		return seal.Manifest{}, fail(runspec.ExitSealBroken, reasonSealBroken, err)
	}
	return manifest, c.unpack(tree)
}

func (c *container) unpack(tree *beneath.Dir) error {
	name := c.cfg.Paths.work(c.in.RunID)
	err := empty(name)
	if err == nil {
		var work *beneath.Dir
		if work, err = beneath.OpenDir(name); err == nil {
			err = errors.Join(seal.Copy(tree, work, c.cfg.SealLimits, nil), work.Close())
		}
	}
	if err != nil {
		return failf(runspec.ExitStorageNotWritable, reasonStorageNotWritable, "unpacking the seal: %w", err)
	}
	return nil
}

func checkTool(manifest seal.Manifest) error {
	sum, err := toolchain.Checksum(manifest.Tool)
	if err != nil {
		return failf(runspec.ExitToolUnavailable, reasonToolUnavailable, "the binary that made the plan is not here: %w", err)
	}
	if sum != manifest.ToolSHA256 {
		return failf(runspec.ExitToolUnavailable, reasonToolUnavailable,
			"%s is not the binary that made the plan: its checksum is %s, want %s", manifest.Tool, sum, manifest.ToolSHA256)
	}
	return nil
}

// rescueState keeps the state that the tool could not give to its backend, on the volume, and says so. A tool that ended
// well has saved its state: a file of that name is then the module's own and says nothing.
func (c *container) rescueState(claim *beneath.Dir, manifest seal.Manifest, outcome error) error {
	if outcome == nil {
		return nil
	}
	work, err := beneath.OpenDir(c.cfg.Paths.work(c.in.RunID))
	if err != nil {
		return outcome
	}
	defer func() { _ = work.Close() }()
	state, err := work.OpenRegular(path.Join(manifest.Module, erroredState))
	if errors.Is(err, fs.ErrNotExist) {
		return outcome
	}
	where := filepath.Join(runspec.SubPathClaim(c.in.RunID), erroredState)
	if err == nil {
		err = errors.Join(keepState(claim, state), state.Close())
	}
	note := fmt.Errorf("the state could not be saved to its backend; it is kept as %s on volume %s-data (push it with `state push`)", where, c.in.Workspace)
	if err != nil {
		note = fmt.Errorf("the state could not be saved to its backend, nor be kept as %s on volume %s-data: %w", where, c.in.Workspace, err)
	}
	c.log.Error("state", "error", note)
	return &failure{code: codeOf(outcome), reason: reasonApplyFailed, err: fmt.Errorf("%w; %w", note, outcome)}
}

func codeOf(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return runspec.ExitInternal
}

func keepState(claim *beneath.Dir, state *os.File) error {
	file, err := claim.Create(erroredState, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.LimitReader(state, maxState))
	return errors.Join(err, file.Sync(), file.Close(), claim.Sync())
}
