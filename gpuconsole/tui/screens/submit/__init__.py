"""The form that submits a job, and what it opens."""
