"""Documents (chứng từ): how they come in, how they are shown, how a draft is voided."""
