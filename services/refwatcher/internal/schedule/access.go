package schedule

// Access is how the remote of a Workspace is reached, beside its URL. The zero value is without a credential.
type Access struct {
	// Namespace and Secret name the credential; empty for none.
	Namespace, Secret string
	// Version changes whenever what the Secret holds may have.
	Version string
	// Unverified says that the key of the server cannot be verified.
	Unverified bool
	// Trouble says that there is a credential and that it cannot be used: the remote is not asked, least of all without it.
	Trouble *Trouble
	// Note is added to what is said when the remote refuses whoever has no credential.
	Note string
}

// keyOf tells remotes apart: two Workspaces share a poll if they have the same one. A URL holds no space.
func keyOf(want Want, access Access) string {
	if access.Secret == "" {
		return want.URL.String()
	}
	return want.URL.String() + " " + access.Namespace + "/" + access.Secret
}
