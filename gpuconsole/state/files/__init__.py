"""Small files beside the journal: answers, consent, images, secrets, recorded measurements."""
