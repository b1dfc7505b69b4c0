package progression

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"magosproject.io/api/v1alpha1"
)

func TestSuspendedMemberHoldsItsStepAndNobodyElse(t *testing.T) {
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	prod := member("p", "prod", spec)
	const reason = v1alpha1.ReasonMemberSuspended
	for name, test := range map[string]ruleCase{
		"it is not granted, and the next step waits": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", spec, suspended), member("e", "dev", applied(commitA, passID)), prod),
			grants: "e Run a", phase: progressingPhase, reason: reason, message: "until a person sets spec.suspend to false on d",
		},
		"its place goes to another": {
			rollout: with(inPass(0, commitA, all...), onStep(0, atMost(intstr.FromInt32(1)))), members: members(member("d", "dev", spec, suspended), member("e", "dev", spec), prod),
			grants: "e Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, message: "spec.suspend to false on d; waits for e",
		},
		"a grant that it holds is taken": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", spec, suspended, holding(v1alpha1.ScopeRun, commitA)), prod),
			phase: progressingPhase, reason: reason,
		},
		"a run of it that lives goes on": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", suspended, run(v1alpha1.RunApplying, v1alpha1.TriggerSpec, passID, commitA)), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		},
		"what is done does not hold the step": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", suspended, applied(commitA, passID)), prod),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"one in a later step holds nobody yet": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", spec), member("p", "prod", spec, suspended)),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		},
		"one that failed is a failure": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", failedRun(0), suspended), prod),
			phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		},
	} {
		t.Run(name, func(t *testing.T) { test.check(t) })
	}
}
