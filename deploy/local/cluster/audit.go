package cluster

// Files below the state folder.
const (
	auditPolicyFile = "audit-policy.yaml"
	auditLogFile    = "audit.log"
)

// auditPolicy writes each request once, when it has been answered, without bodies, and leaves out what Kubernetes itself asks.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: None
    userGroups: ["system:nodes", "system:masters"]
  - level: None
    users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"]
  - level: None
    userGroups: ["system:serviceaccounts:kube-system"]
  - level: Metadata
`

// auditFlags make the API server keep an audit log. It is never rotated: who measures reads all of it.
func (c components) auditFlags() []string {
	if !c.config.Audit {
		return nil
	}
	return []string{
		"--audit-policy-file=" + c.config.paths().in(auditPolicyFile), "--audit-log-path=" + c.config.paths().in(auditLogFile),
		"--audit-log-maxsize=100000",
	}
}
